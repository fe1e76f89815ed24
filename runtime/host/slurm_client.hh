// Slurm's own commands in a container, for batch scripts that run in one and start steps: what has to be there of the
// node.
#pragma once
#include "runtime/config/site.hh"
#include "runtime/request/request.hh"

namespace berth {

/// Adds to `job` the node's Slurm commands, their libraries and settings, munge's socket, what the site names besides,
/// and the account of Slurm's daemons; what the node does not have is left out. Slurm is installed in `prefix`, or
/// where distributions have it when that is empty. The image's C library must not be older than the node's.
void add_slurm_client(plan::Job& job, const plan::Site& site, const std::string& prefix);

}  // namespace berth
