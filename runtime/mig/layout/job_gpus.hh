// Which GPUs a job holds, and whether alone: of what Slurm says to Prolog and by scontrol.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::mig {

/// Files as gres.conf spells them: "/dev/nvidia[0-3,5]" and the like, lists of them too. Throws Error for one whose
/// name does not end in nvidiaN.
std::vector<std::string> device_files(const std::string& text);

/// N of .../nvidiaN, one of the above.
unsigned minor_of(const std::string& file);

/// The files of the job's GPUs. SLURM_JOB_GPUS counts the GPUs as slurmd lists them. `cuda` is what
/// CUDA_VISIBLE_DEVICES is in Prolog. Throws Error when the job holds no GPU, or MIG devices instead of GPUs.
std::vector<std::string> files_of_job(const std::vector<std::string>& files, const std::string& job_gpus,
                                      const std::string& cuda);

/// Throws Error unless the answer of `scontrol --details show job` says that the job has GPUs, and nothing that is a
/// part of a GPU, as shards and MPS are: SLURM_JOB_GPUS has the GPU of a shard as well.
void require_whole_gpus(std::string_view scontrol);

}  // namespace berth::mig
