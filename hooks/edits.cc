#include "hooks/edits.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

#if defined(__x86_64__)
constexpr const char* triplet = "x86_64-linux-gnu";
constexpr const char* machine = "x86_64";
#elif defined(__aarch64__)
constexpr const char* triplet = "aarch64-linux-gnu";
constexpr const char* machine = "aarch64";
#else
constexpr const char* triplet = "unknown-linux-gnu";
constexpr const char* machine = "unknown";
#endif

}  // namespace

plan::Edit bind_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason) {
    plan::Mount mount;
    mount.source = host.real(source);
    mount.target = target;
    mount.create = plan::Mount::Create::file;
    return {mount, origin, reason};
}

plan::Edit node_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason) {
    plan::Edit edit = bind_edit(host, source, target, origin, reason);
    std::get<plan::Mount>(edit.action).device = true;
    return edit;
}

plan::Edit file_edit(const Host& host, const std::string& source, const std::string& target, const plan::Origin& origin,
                     const std::string& reason) {
    plan::Edit edit = bind_edit(host, source, target, origin, reason);
    std::get<plan::Mount>(edit.action).read_only = true;
    return edit;
}

bool add_open_node(std::vector<plan::Edit>& edits, const Host& host, const std::string& path,
                   const plan::Origin& origin, const std::string& reason) {
    if (!host.device(path) || host.access(path) != Access::allowed) return false;
    edits.push_back(node_edit(host, path, path, origin, reason));
    return true;
}

bool tells(const std::vector<std::string>& job) {
    const char* node = variable(job, "SLURM_NODEID");
    return !node || node == std::string_view("0");
}

LibraryPlace library_place(const Rootfs& image) {
    bool debian = image.exists("/etc/debian_version");
    LibraryPlace place;
    place.folder = debian ? cat("/usr/lib/", triplet) : "/usr/lib64";
    place.narrow_folder = debian ? "/usr/lib/i386-linux-gnu" : "/usr/lib";
    if (image.exists("/etc/alpine-release")) place.musl_path = cat("/etc/ld-musl-", machine, ".path");
    return place;
}

std::vector<std::string> usual_library_folders() {
    return {"/lib",     "/lib64",         cat("/lib/", triplet),           "/usr/lib",
            "/usr/lib64", "/usr/local/lib", cat("/usr/local/lib/", triplet), cat("/usr/lib/", triplet)};
}

std::string normal_bus(const std::string& text) {
    std::string bus = lower(text);
    if (std::count(bus.begin(), bus.end(), ':') == 1) bus = "0000:" + bus;
    size_t colon = bus.find(':');
    if (colon == std::string::npos || bus.find_first_not_of("0123456789abcdef:.") != std::string::npos) return {};
    // NVML writes eight digits of the domain, the kernel four or more.
    while (colon > 4 && bus[0] == '0') {
        bus.erase(0, 1);
        --colon;
    }
    bool whole = bus.size() == colon + 8 && colon >= 4 && bus[colon + 3] == ':' && bus[colon + 6] == '.';
    return whole ? bus : std::string();
}

}  // namespace berth::hooks
