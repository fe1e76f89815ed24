// The grammar of --mig: which MIG devices a job wants on each of its GPUs. And by which names it goes from srun to
// Prolog and to the steps.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// So many MIG devices of one profile.
struct MigItem {
    std::string profile;  ///< "1g.10gb", "1g.10gb+me"
    unsigned count = 1;
    bool operator==(const MigItem&) const = default;
};
using MigRequest = std::vector<MigItem>;

/// No GPU is divided into more.
inline constexpr unsigned most_mig_devices = 8;

/// Parses PROFILE[:N][,PROFILE[:N]...]. Throws Error for anything else. Which profiles a GPU has is known on the node
/// alone.
MigRequest parse_mig(std::string_view text);

/// For spank_job_control_setenv(): Prolog has it as SPANK_BERTH_MIG.
inline constexpr const char* mig_word = "BERTH_MIG";
/// The same in the environment of the job's steps, where sbatch and salloc put it; its value is mig_text().
inline constexpr const char* mig_variable = "SLURM_SPANK_BERTH_MIG";
/// Of --mig-per-task. Named as Slurm's own, since those pass whatever --export says.
inline constexpr const char* mig_per_task_variable = "SLURM_BERTH_MIG_PER_TASK";
/// What berth-mig tells of a job whose GPUs are divided; mig_text() follows. Anything else is the reason why not.
inline constexpr std::string_view mig_ready = "ready ";

/// The same in one spelling: each profile once, with its count where that is not 1.
std::string mig_text(const MigRequest& request);

}  // namespace berth::plan
