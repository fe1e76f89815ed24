// SPANK's header with the linkage it forgets to declare for C++, and all else that depends on Slurm's version.
#pragma once
// What it includes must come first: C++ headers cannot be included inside extern "C".
#include <errno.h>
#include <inttypes.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <string>

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
/// Slurm's settings in this process, which its plugins share; where the symbol is missing its address is null. To be
/// read by settings() alone.
extern __attribute__((weak)) slurm_conf_t slurm_conf;
}
#pragma GCC visibility pop

namespace berth::spank {

/// Slurm's settings, to be changed in a task's own process only; null where they cannot be known: the type is that of
/// the header with which this plugin was built, and Slurm loads plugins that were built for any release of its series.
slurm_conf_t* settings(spank_t spank);

/// The release whose headers this plugin was built with ("24.05.8").
std::string built_for();

/// The release that runs ("24.05.8", "24.11.0-0rc1"); empty when it does not tell.
std::string runs_in(spank_t spank);

/// False only where Slurm is known to call each callback in slurmstepd's own process (see OwnProcess).
bool may_be_contained(spank_t spank);

/// True where Slurm is known to call no slurm_spank_job_epilog after a job, which has an extern step then
/// (PrologFlags=RunInJob of Slurm 24.05 and newer).
bool has_no_epilog(spank_t spank);

/// True for the number that srun --no-allocate has taken for what it runs: there is no such job.
bool is_without_allocation(uint32_t job);

/// False only where Slurm is known to make no mounts for a job (see job_mounts.hh).
bool may_have_job_mounts(spank_t spank);

}  // namespace berth::spank
