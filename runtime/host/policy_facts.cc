#include "runtime/host/policy_facts.hh"

#include <grp.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"

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

void check_image_here(const plan::Site& site, const plan::Reference& image) {
    plan::check_image(site, image, real_paths(plan::policy_paths(site, image)));
}

void check_opened_image(const plan::Site& site, const plan::Reference& image, int file) {
    std::vector<std::string> asked = plan::policy_paths(site, image);
    if (asked.empty()) return;
    plan::RealPaths real = real_paths(asked);
    real[image.path] = sys::opened_path(file);
    plan::check_image(site, image, real);
}

}  // namespace berth
