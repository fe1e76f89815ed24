// What a Slurm job brings into a container beside its options: the variables and folders of MPI, and PyTorch's
// variables. Pure.
#pragma once
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/request/request.hh"

namespace berth::plan {

/// Variables by name; nothing as a value: the variable is not there.
using Variables = std::map<std::string, std::optional<std::string>>;

/// True for the variables by which Slurm, its MPI plugins and the job's MPS service talk to a task (SLURM_*, PMI_*,
/// PMIX_*, CUDA_MPS_*): an image that was saved inside a job has stale ones.
bool belongs_to_job(const std::string& name);

/// Adds to `inside`, which changes `task`, what MPI libraries and PyTorch look for:
/// PMIX_MCA_ptl, _psec and _gds name the modules of Slurm's PMIx server, which a library of another version would not
/// choose by itself. With PYTORCH_VERSION: RANK and LOCAL_RANK of the task, and unless they are set already MASTER_ADDR
/// (the first node of the step), MASTER_PORT (61000 to 65535, by the job's number), WORLD_SIZE, and OMP_NUM_THREADS=1
/// when a node has several tasks, as torchrun has it.
void add_job_variables(Variables& inside, const std::map<std::string, std::string>& task);

/// The first name of a list of nodes as Slurm writes it: "n3" of "n[3-5,9],m1". What is no such list is returned as it
/// is.
std::string first_node(const std::string& list);

/// True when the environment of a step (NAME=VALUE) says that Slurm runs a PMIx server for it. The variable is srun's,
/// from 22.05 to 25.11.
bool has_pmix_server(const std::vector<std::string>& environment);

/// The folders that a task of a PMIx step shares with Slurm's server: PMIX_SERVER_TMPDIR of its environment, and the
/// one for the programs' own files, which Slurm makes in SLURM_PMIX_TMPDIR or TmpFS and names
/// spmix_appdir_UID_JOB.STEP. Absolute paths, which need not exist. What a variable names is the job's choice: see
/// is_name_of_pmix_server().
std::vector<JobPath> pmix_folders(const std::vector<std::string>& task, const std::string& tmp_fs, uid_t uid,
                                  const std::string& job_step);

/// True when Slurm's PMIx plugin gives this name to the folder of its server for a step, "pmix.JOB.STEP" in slurmd's
/// spool folder (its src/plugins/mpi/pmix/pmixp_info.c).
bool is_name_of_pmix_server(const std::string& name, const std::string& job_step);

/// The file with the key of the display that Slurm forwards to a step (srun --x11): XAUTHORITY of its environment,
/// where that has the form that Slurm gives it in TmpFS, ".Xauthority-" and a random word (slurmstepd's
/// x11_forwarding.c). Empty for a display that is not forwarded, and for every other file: one in the home is mounted
/// with that.
std::string display_key(const std::vector<std::string>& step, const std::string& tmp_fs);

/// A line for the first node of a step of several tasks under PMIx whose container is root's: it will not work. Else
/// empty. `task` is the environment of a task.
std::string pmix_note(const std::vector<std::string>& task, bool remap_root);

}  // namespace berth::plan
