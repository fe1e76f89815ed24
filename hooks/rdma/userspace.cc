#include "hooks/rdma/userspace.hh"

#include "hooks/edits.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

namespace {

const std::string reason = "the node's verbs libraries (devices.rdma_userspace)";
constexpr const char* folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
constexpr const char* libraries[] = {"libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3",
                                     "libmlx5.so.1",    "libmlx4.so.1",   "libefa.so.1",
                                     "libmana.so.1",    "libnl-3.so.200", "libnl-route-3.so.200"};
constexpr const char *drivers = "/etc/libibverbs.d", *amazon = "/opt/amazon/efa";

/// The folder of the node's libraries; empty when there is no whole set.
std::string folder_of(const Host& host) {
    for (const char* folder : folders)
        if (host.exists(cat(folder, "/libibverbs.so.1")) && host.exists(cat(folder, "/libibverbs")) &&
            host.exists(drivers))
            return folder;
    return {};
}

}  // namespace

void add_userspace(plan::ContainerEdits& out, const Host& host, const Rootfs& image, bool efa) {
    std::string from = folder_of(host);
    if (from.empty()) {
        out.warnings.push_back(
            "devices.rdma_userspace: this node has no libibverbs with its providers and /etc/libibverbs.d; the image's "
            "own libraries are used");
        return;
    }
    LibraryPlace place = library_place(image);
    plan::LoaderLibraries loader{{}, place.musl_path, place.folder};
    auto bind = [&](const std::string& source, const std::string& target, plan::Mount::Create create) {
        out.edits.push_back(file_edit(host, source, target, by_rdma, reason));
        std::get<plan::Mount>(out.edits.back().action).create = create;
    };
    auto know = [&](const std::string& name, const std::string& path) {
        loader.libraries.push_back({.flags = loader_flags(), .name = name, .path = path});
    };
    for (const char* name : libraries) {
        auto real = host.resolved(cat(from, "/", name));
        if (!real) continue;
        std::string file = real->substr(real->rfind('/') + 1);
        bind(*real, place.folder + "/" + file, plan::Mount::Create::file);
        if (file != name) out.edits.push_back({plan::Symlink{place.folder + "/" + name, file, true}, by_rdma, reason});
        know(name, place.folder + "/" + name);
    }
    bind(from + "/libibverbs", place.folder + "/libibverbs", plan::Mount::Create::directory);
    bind(drivers, drivers, plan::Mount::Create::directory);
    if (efa && host.exists(amazon)) {
        bind(amazon, amazon, plan::Mount::Create::directory);
        for (const char* folder : {"/lib64", "/lib"})
            for (const std::string& name : host.list(cat(amazon, folder)))
                if (name.starts_with("lib") && name.find(".so.") != std::string::npos)
                    know(name, cat(amazon, folder, "/", name));
    }
    out.edits.push_back({loader, by_rdma, "how the loader finds them"});
}

}  // namespace berth::hooks
