// A container with what hooks add for an image, and how what a task sees there is compared with a scene.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "hooks/devices.hh"
#include "tests/catch.hh"
#include "tests/fixtures/fake_host.hh"
#include "tests/kernel/hooks_view.hh"
#include "tests/kernel/support.hh"

namespace berth::kernel_test {

using namespace berth::fixtures;

inline void fill_files(squash::LayerWriter& writer, const std::vector<ImageFile>& files) {
    std::set<std::string> folders;
    for (const ImageFile& one : files)
        for (size_t at = one.path.find('/', 1); at != std::string::npos; at = one.path.find('/', at + 1))
            if (std::string folder = one.path.substr(1, at - 1); folder != "etc" && folders.insert(folder).second)
                writer.add_directory(folder, {});
    for (const ImageFile& one : files)
        if (one.link_to)
            writer.add_symlink(one.path.substr(1), {}, one.content);
        else
            add_file(writer, one.path.substr(1), one.content);
}

inline ContainerImage image_of(const std::vector<std::string>& variables, const std::vector<ImageFile>& files = {}) {
    plan::ImageConfig config;
    config.env = variables;
    Fill fill = [&](squash::LayerWriter& writer) {
        fill_sample(writer);
        fill_files(writer, files);
    };
    return make_image(std::vector<Fill>{fill}, {}, config);
}

/// Where the tests run as root, the node's files are the test user's: he opens them for writing, as one does with a
/// device, and takes some away later.
inline void give_to_user(const FakeHost& host) {
    if (::geteuid() != 0) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(host.path()))
        if (::lchown(entry.path().c_str(), test_uid(), test_gid()) != 0)
            throw SysError("giving the node to the test user");
}

/// The mounts and children of this process: what a start that is refused may not have changed.
inline std::string standing() {
    return slurp("/proc/self/mountinfo") + slurp(cat("/proc/self/task/", ::getpid(), "/children"));
}

/// The way of `berth run`: what hooks add for the image, in a container; what `look` says in a task of it. An error has
/// left nothing behind.
inline std::string started(const FakeHost& host, const plan::Site& site, ContainerImage image,
                    const std::vector<std::string>& job,
                    const std::function<std::string(const plan::ContainerEdits&)>& look,
                    std::vector<std::string>& warnings) {
    std::string before = standing();
    plan::ContainerEdits made;
    try {
        made =
            together(device_edits(host, image, site, job, [&](const std::string& line) { warnings.push_back(line); }));
    } catch (const Error&) {
        if (standing() != before) throw Error("the refused start has left something");
        throw;
    }
    StartedContainer container = start_container(plan_on(host, made), std::move(image), site);
    return run_task(container, [&] { return look(made); });
}

inline std::string warnings_text(const std::vector<std::string>& warnings) {
    std::string out;
    for (const std::string& line : warnings) out += "\n" + line;
    return out;
}

/// The text of a scene and what was warned of, compared with an error, a text, and a part of the one warning.
inline void check(const Outcome& seen, const std::string& error, const std::string& text, const std::string& warning) {
    CHECK_THAT(seen.error, Catch::Contains(error));
    if (!error.empty()) return;
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith(text));
    std::string rest = seen.text.size() < text.size() ? "" : seen.text.substr(text.size());
    CHECK(std::count(rest.begin(), rest.end(), '\n') == (warning.empty() ? 0 : 1));
    CHECK_THAT(rest, Catch::StartsWith(warning.empty() ? "" : "\nwarning: "));
    CHECK_THAT(rest, Catch::Contains(warning));
}

}  // namespace berth::kernel_test
