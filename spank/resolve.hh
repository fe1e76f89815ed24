// In srun and sbatch: what the image's tag means is asked once for all nodes, as the user who calls, by the program
// `berth`.
#pragma once
#include <cstdint>

#include "spank/slurm.hh"

namespace berth::spank {

/// Starts asking, for an image of a registry that is named by tag; returns at once. In a job whose batch script runs in
/// the same image, its answer stands. Srun calls this for each part of a heterogeneous step; from the second one on it
/// waits as finish_resolving() does.
void start_resolving();

/// For more than one node (`nodes`) and an image of a registry starts a process that lives as long as srun: the
/// tracker, by which they share the image. Then takes the answer about the tag when it has come, or comes within five
/// seconds of the start, and hands it to the nodes by the environment. Without one they ask for themselves, agree by
/// way of the tracker on what they found, and tell what is wrong. What the registry refused of the user's logins is
/// handed to the nodes as well, without the logins.
void finish_resolving(spank_t spank, uint32_t nodes);

/// Both, for sbatch, which waits for no allocation; says what the tag means. Throws Error for an image that the
/// registry does not have, where the site wants that.
void resolve_now();

}  // namespace berth::spank
