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

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
/// slurmstepd's own settings, which its plugins share; where the symbol is missing its address is null. The type is in
/// Slurm's public header, and Slurm loads only plugins that were built for its very version.
extern __attribute__((weak)) slurm_conf_t slurm_conf;
}
#pragma GCC visibility pop
