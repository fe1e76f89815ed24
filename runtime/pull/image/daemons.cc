#include "runtime/pull/image/daemons.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

void set_daemon(Options& options, const plan::Reference& reference, const std::vector<std::string>& environment) {
    constexpr std::string_view unix_socket = "unix://";
    std::string host = value_in(environment, "DOCKER_HOST"), folder = value_in(environment, "XDG_RUNTIME_DIR");
    if (reference.kind == plan::Reference::Kind::podman && !folder.empty())
        options.podman_socket = folder + "/podman/podman.sock";
    if (reference.kind != plan::Reference::Kind::dockerd || host.empty()) return;
    if (!host.starts_with(unix_socket))
        throw Error(cat("DOCKER_HOST=", printable(host), ": only a unix socket is supported, as unix:///PATH"));
    options.docker_socket = host.substr(unix_socket.size());
}

}  // namespace berth::pull
