#include "tests/kernel/site_support.hh"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth::kernel_test {

namespace {

void write_file(const std::string& path, const std::string& content, mode_t mode) {
    Fd file = sys::open_file(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    sys::write_all(file.get(), content, path);
    if (::fchmod(file.get(), mode) != 0) throw SysError("setting the mode of " + path);
}

}  // namespace

void SiteScene::open_up(const std::string& path) const {
    std::string name = path;
    std::ranges::replace(name, '/', '_');
    std::string kept = "/mnt/" + name;
    std::filesystem::create_directory(kept);
    // What is mounted below it, such as a container's /etc/hosts, belongs to it.
    if (::mount(path.c_str(), kept.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        ::mount("site", path.c_str(), "tmpfs", 0, "mode=755") != 0)
        throw SysError("taking the place of " + path);
    for (const auto& entry : std::filesystem::directory_iterator(kept))
        std::filesystem::create_symlink(entry.path(), path + "/" + entry.path().filename().string());
}

void SiteScene::become_site(const std::string& site_text) const {
    sandbox::enter_user_namespace({test_uid(), 0, test_gid(), 0});
    // Where the node's directories are kept: a start mounts its own over /tmp.
    if (::mount("site", "/mnt", "tmpfs", 0, "mode=755") != 0) throw SysError("taking the place of /mnt");
    open_up("/etc");
    for (const char* path : {"/etc/berth", "/etc/cdi", "/etc/berth/hooks.d"}) {
        std::filesystem::remove(path);
        std::filesystem::create_directory(path);
        if (::chmod(path, 0755) != 0) throw SysError("making a folder of the site");
    }
    write_file("/etc/berth/berth.conf", site_text, 0644);
    for (const auto& [name, script] : hooks) write_file("/etc/berth/hooks.d/" + name, "#!/bin/sh\n" + script, 0755);
    if (prepare) prepare();
    // What is executed from here on can do no more than an ordinary user, but for what the kernel wants of those who
    // map a namespace's root once more.
    sandbox::limit_bounding_set(1ULL << CAP_SETFCAP);
}

std::vector<std::string> SiteScene::shell_words(const std::vector<std::string>& arguments,
                                                const std::vector<std::string>& variables) const {
    std::vector<std::string> out{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"}, words = command("berth", arguments);
    words.insert(words.begin() + 2, variables.begin(), variables.end());
    out.insert(out.end(), words.begin(), words.end());
    return out;
}

Outcome SiteScene::berth(const std::string& site_text, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& variables) const {
    // A program of the site may take seconds by itself.
    return as_user(
        [&] {
            become_site(site_text);
            return output_of(shell_words(arguments, variables));
        },
        std::chrono::seconds(60));
}

Outcome SiteScene::shell(const std::string& site_text, const std::string& script,
                         const std::vector<std::string>& variables, const std::vector<std::string>& options) const {
    std::vector<std::string> arguments{"run", "--mount", "/usr:/usr:ro"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {image, "/usr/bin/bash", "--norc", "-c", script});
    return berth(site_text, arguments, variables);
}

}  // namespace berth::kernel_test
