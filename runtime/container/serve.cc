#include "runtime/container/serve.hh"

#include <chrono>
#include <memory>
#include <utility>

#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/seccomp.hh"

namespace berth {

namespace {

mount::ServerOptions server_options(const plan::Plan& plan, const plan::Site& site) {
    mount::ServerOptions options;
    options.uid = plan.identity.inside_uid;
    options.gid = plan.identity.inside_gid;
    options.threads = site.mount.threads;
    options.busy_poll = std::chrono::microseconds(site.mount.busy_poll);
    options.cache_bytes = site.mount.cache_size;
    options.confine = [] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
    };
    return options;
}

/// By the program that the image says. What it may do is what a task may.
mount::ProgramServer start_other_server(const plan::Plan& plan, const FlatImage& flat, const std::string& filter,
                                        int staging) {
    mount::ProgramServerOptions options{
        plan.identity.inside_uid, plan.identity.inside_gid, flat.file.get(), flat.offset, {}};
    options.confine = [&] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
        sandbox::install_filter(filter);
    };
    return mount::start_program_server(flat.program, options, staging, "lower");
}

}  // namespace

mount::ProgramServer serve_image(ContainerImage&& image, const plan::Plan& plan, const plan::Site& site,
                                 const std::string& filter, int staging) {
    if (image.flat.file) return start_other_server(plan, image.flat, filter, staging);
    mount::start_server(std::make_shared<const squash::Index>(std::move(image.index)), image.layers,
                        server_options(plan, site), mount::staging_directory(staging, "lower").get());
    return {};
}

}  // namespace berth
