// SPANK's header with the linkage it forgets to declare for C++.
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
}
#pragma GCC visibility pop
