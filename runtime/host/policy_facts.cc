#include "runtime/host/policy_facts.hh"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

plan::RealPaths real_paths(const std::vector<std::string>& paths) {
    plan::RealPaths out;
    for (const std::string& path : paths) {
        std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
        if (real) out[path] = real.get();
    }
    return out;
}

std::vector<std::string> groups_of_this_process() {
    int count = ::getgroups(0, nullptr);
    if (count < 0) throw SysError("counting the groups of this process");
    std::vector<gid_t> ids(static_cast<size_t>(count));
    count = ::getgroups(count, ids.data());
    if (count < 0) throw SysError("listing the groups of this process");
    ids.resize(static_cast<size_t>(count));
    std::vector<std::string> out;
    char buffer[65536];
    for (gid_t id : ids) {
        group entry{}, *found = nullptr;
        if (::getgrgid_r(id, &entry, buffer, sizeof buffer, &found) == 0 && found) out.emplace_back(found->gr_name);
    }
    return out;
}

namespace {

/// Whose an opened image is.
plan::ImageOwner owner_of(const plan::Reference& image, int file) {
    struct stat st = sys::stat_of(file, "the image " + printable(image.path, 4096));
    passwd entry{}, *found = nullptr;
    char buffer[65536];
    bool has_name = ::getpwuid_r(st.st_uid, &entry, buffer, sizeof buffer, &found) == 0 && found;
    return {has_name ? found->pw_name : "", st.st_uid, st.st_mode};
}

}  // namespace

void check_image_here(const plan::Site& site, const plan::Reference& image) {
    plan::check_image(site, image, real_paths(plan::policy_paths(site, image)));
    // A file that is no archive, and a directory, are looked at when they have been opened.
    if (plan::asks_for_owner(site, image) && image.kind != plan::Reference::Kind::path)
        plan::check_image_owner(site, image, owner_of(image, sys::open_file(image.path, O_PATH).get()));
}

void check_opened_image(const plan::Site& site, const plan::Reference& image, int file) {
    std::vector<std::string> asked = plan::policy_paths(site, image);
    if (!asked.empty()) {
        plan::RealPaths real = real_paths(asked);
        real[image.path] = sys::opened_path(file);
        plan::check_image(site, image, real);
    }
    if (plan::asks_for_owner(site, image)) plan::check_image_owner(site, image, owner_of(image, file));
}

void check_owner_of_file(const plan::Site& site, const std::string& path, int file) {
    plan::Reference image;
    image.kind = plan::Reference::Kind::path;
    image.path = path;
    if (plan::asks_for_owner(site, image)) plan::check_image_owner(site, image, owner_of(image, file));
}

}  // namespace berth
