// Where the daemons of docker and podman listen, by the variables that their own clients read.
#pragma once
#include <string>
#include <vector>

#include "runtime/pull/image/options.hh"
#include "runtime/request/reference.hh"

namespace berth::pull {

/// Sets the socket of the daemon that `reference` is about, by DOCKER_HOST or XDG_RUNTIME_DIR among `environment`
/// (NAME=VALUE); leaves `options` alone for other images. Throws Error for a DOCKER_HOST that is no unix socket.
void set_daemon(Options& options, const plan::Reference& reference, const std::vector<std::string>& environment);

}  // namespace berth::pull
