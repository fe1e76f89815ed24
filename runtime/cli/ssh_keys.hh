// The keys by which ssh and the sshd of `berth exec --ssh-server` know each other, in the user's home.
#pragma once
#include "runtime/cli/ssh.hh"

namespace berth::cli {

/// Makes the keys that are not there, in a folder and files that only the user can read, and writes the known_hosts.
/// Throws Error.
void make_ssh_keys(const SshFiles& files);

}  // namespace berth::cli
