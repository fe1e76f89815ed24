// What a batch script is told of its submission in spite of --export and --export-file: runtime/request/carried.hh.
// Root in slurmstepd gives variables their names back, and looks into none.
#pragma once
#include "spank/slurm.hh"

namespace berth::spank {

/// Programs on the submit side: those of the job around this one are not this one's.
void forget_carried_variables();

/// In sbatch, when all else is known: leaves the variables for the batch script, by Slurm's record of the job too.
void carry_to_script(spank_t spank);

/// In slurmstepd: the step is a batch script.
bool is_script(spank_t spank);

/// In slurmstepd of a batch script: gives those that --export-file has left out.
void restore_variables(spank_t spank);

/// In slurmstepd: the batch script's submission asked for a container.
bool submission_asked(spank_t spank);

/// In a task of the batch script: what it submits in turn is another submission.
void drop_marks(spank_t spank);

/// The value of a variable of the job; empty where there is none.
std::string job_variable(spank_t spank, const std::string& name);

}  // namespace berth::spank
