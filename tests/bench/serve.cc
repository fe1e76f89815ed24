// Mounts an image as a container has it and runs a command of the host with the mount as its working directory, so that
// the same program can be timed on every kind of mount. usage: serve plain|overlay STORE IMAGE COMMAND ...; plain: the
// file server alone; overlay: with the writable layer over it.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/open.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/request/reference.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/fixtures/processes.hh"

using namespace berth;

namespace {

/// Most memory that this process, which is the server, has had; in kilobytes (proc(5)).
void report_memory() {
    std::FILE* status = std::fopen("/proc/self/status", "re");
    char line[256];
    while (status && std::fgets(line, sizeof line, status))
        if (std::strncmp(line, "VmHWM:", 6) == 0) std::fprintf(stderr, "server %s", line);
    if (status) std::fclose(status);
}

int run(const std::string& mode, const std::string& store, const std::string& reference, char** command) {
    plan::Caller caller = caller_of_this_process();
    plan::Site site;
    site.store.path = store;
    site.store.pull = plan::PullPolicy::missing;
    OpenedImage opened = open_image(plan::parse_reference(reference), caller, site,
                                    {.progress = [](const std::string&) {}, .ready = {}});
    plan::Identity identity;
    identity.host_uid = identity.inside_uid = caller.uid;
    identity.host_gid = identity.inside_gid = caller.gid;
    sandbox::enter_user_namespace(identity);
    sys::make_mounts_private();
    // The host's /tmp is hidden by the staging area from here on: what the command needs lies elsewhere.
    Fd staging = mount::make_staging(0);
    mount::ServerOptions options;
    // As containers have it by default.
    options.modes = plan::ImageModes::enroot;
    options.uid = caller.uid;
    options.gid = caller.gid;
    options.cache_bytes = site.mount.cache_size;
    Fd place = mount::staging_directory(staging.get(), "lower");
    mount::start_server(std::make_shared<const squash::Index>(std::move(opened.image.index)), opened.image.layers,
                        options, place.get());
    Fd tree = mode == "overlay" ? Fd(::dup(mount::Root::make_overlay(staging.get()).fd()))
                                : mount::staging_directory(staging.get(), "lower");
    pid_t child = fixtures::forked();
    if (child == 0) {
        if (::fchdir(tree.get()) == 0) ::execvp(command[0], command);
        ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    report_memory();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) {
        std::fputs("usage: serve plain|overlay STORE IMAGE COMMAND ...\n", stderr);
        return 2;
    }
    int code = 125;
    try {
        code = run(argv[1], argv[2], argv[3], argv + 4);
    } catch (const Error& error) {
        std::fprintf(stderr, "serve: %s\n", error.what());
    }
    std::fflush(nullptr);
    // The server's threads are still at work.
    ::_exit(code);
}
