#include "tests/gpu/root.hh"

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::gpu_test {

namespace {

/// What programs and the driver's libraries load beside what ldd says of them.
constexpr const char* companions[] = {"libdl.so.2",   "libpthread.so.0", "librt.so.1",    "libm.so.6",
                                      "libutil.so.1", "libgcc_s.so.1",   "libstdc++.so.6"};

bool is_of_driver(const std::string& path) {
    return path.find("nvidia") != std::string::npos || path.find("libcuda.so") != std::string::npos;
}

}  // namespace

std::string built(const std::string& name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

std::string said(const std::vector<std::string>& words) {
    std::vector<std::string> shell{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
    shell.insert(shell.end(), words.begin(), words.end());
    return kernel_test::as_user([&] { return kernel_test::output_of(shell); }, timeout).text;
}

hooks::Driver driver_here() {
    auto driver = hooks::find_driver(hooks::Host(), {});
    if (!driver) throw Error("looking for the driver of this node: there is none");
    return *driver;
}

std::vector<hooks::Gpu> open_gpus() {
    std::vector<hooks::Gpu> out;
    for (const hooks::Gpu& gpu : driver_here().gpus)
        if (gpu.access == hooks::Access::allowed) out.push_back(gpu);
    return out;
}

std::set<std::string> uuids_of(const std::vector<hooks::Gpu>& gpus) {
    std::set<std::string> out;
    for (const hooks::Gpu& gpu : gpus) out.insert(gpu.uuid);
    return out;
}

std::set<std::string> uuids_in(const std::string& text) {
    std::set<std::string> out;
    for (size_t at = text.find("GPU-"); at != std::string::npos; at = text.find("GPU-", at + 1))
        out.insert(text.substr(at, 40));
    return out;
}

std::set<std::string> loaded_in(const std::string& text) {
    std::set<std::string> out;
    for (const std::string& line : split(text, '\n')) {
        size_t at = line.find("calling init: ");
        if (at == std::string::npos) continue;
        std::string name(trimmed(line.substr(line.rfind('/') + 1)));
        for (const char* part : {"nvidia", "libcuda.so", "libnvcuvid"})
            if (name.find(part) != std::string::npos) out.insert(name);
    }
    return out;
}

std::string joined(const std::set<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += name + " ";
    return out;
}

Root::Root() : path_(scene_.folder / "root") {
    for (const char* folder : {"usr", "usr/bin", "bin", "lib64", "etc", "tmp", "dev", "proc", "sys", "run"})
        std::filesystem::create_directories(path_ + "/" + folder);
    for (const char* release : {"/etc/debian_version", "/etc/redhat-release"})
        if (std::filesystem::exists(release)) copy(release, release);
    take("/bin/sh");
    for (const char* name : companions)
        if (std::string path = library_folder_ + "/" + name; std::filesystem::exists(path)) copy(path, path);
}

void Root::take(const std::string& program) {
    copy(program, "/bin/" + std::filesystem::path(program).filename().string());
    take_libraries(program);
}

void Root::file(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + path).parent_path());
    std::ofstream(path_ + path) << content;
}

void Root::link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + path).parent_path());
    std::filesystem::create_symlink(target, path_ + path);
}

std::string Root::scratch(const std::string& name) const {
    std::string folder = scene_.folder / name;
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::all);
    return folder;
}

std::vector<std::string> Root::words(const std::vector<std::string>& variables, const std::vector<std::string>& command,
                                     const std::vector<std::string>& options) const {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(path_);
    arguments.insert(arguments.end(), command.begin(), command.end());
    std::vector<std::string> out = scene_.command("berth", arguments);
    // Behind `env -i`.
    out.insert(out.begin() + 2, variables.begin(), variables.end());
    return out;
}

void Root::copy(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + target).parent_path());
    std::filesystem::copy_file(path, path_ + target, std::filesystem::copy_options::skip_existing);
}

/// Of the lines of ldd: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)". The C library lies where the loader
/// looks for it, and the others beside it.
void Root::take_libraries(const std::string& program) {
    std::vector<std::string> found;
    for (const std::string& text : split(said({"/usr/bin/ldd", program}), '\n'))
        for (const std::string& word : split(text, ' '))
            if (std::string path(trimmed(word)); path.starts_with('/') && !is_of_driver(path)) {
                if (path.ends_with("/libc.so.6")) library_folder_ = path.substr(0, path.rfind('/'));
                found.push_back(path);
            }
    for (const std::string& path : found) {
        std::string name = path.substr(path.rfind('/') + 1);
        copy(path, name.starts_with("ld-") ? path : library_folder_ + "/" + name);
    }
}

}  // namespace berth::gpu_test
