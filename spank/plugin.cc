// The symbols that Slurm looks for. Nothing but: which callback in which context leads to which function. No exception
// leaves a callback.
#include <exception>

#include "spank/beside.hh"
#include "spank/carried.hh"
#include "spank/environment.hh"
#include "spank/mig.hh"
#include "spank/options.hh"
#include "spank/resolve.hh"
#include "spank/slurm.hh"
#include "spank/start.hh"
#include "spank/step.hh"
#include "spank/task.hh"

// All else in the plugin is hidden by the compiler's flags; exports.map keeps the C++ library's symbols in as well.
#pragma GCC visibility push(default)

// Not by SPANK_PLUGIN(): constants have internal linkage in C++, and Slurm would not find them.
extern "C" {
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;

const char plugin_name[] = "berth";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
}

#pragma GCC visibility pop

namespace {

using namespace berth::spank;
namespace plan = berth::plan;

template <typename Action>
int guarded(Action action) noexcept {
    try {
        action();
        return ESPANK_SUCCESS;
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s", error.what());
    } catch (...) {
        slurm_spank_log("berth: the plugin stopped at an exception without a message; see slurmd's log");
    }
    return -1;
}

bool in_slurmstepd() {
    return spank_context() == S_CTX_REMOTE;
}

bool takes_options() {
    return in_slurmstepd() || spank_context() == S_CTX_LOCAL ||
           (spank_context() == S_CTX_ALLOCATOR && step().config.sbatch_support);
}

void initialize(spank_t spank, int count, char** words) {
    try {
        step().config = parse_config(count, words);
    } catch (const berth::Error& error) {
        // An error here would drain the node; srun and slurmd refuse to start, which is enough.
        if (!in_slurmstepd()) throw;
        step().held_error = error;
    }
    if (spank_context() == S_CTX_SLURMD && !step().config.without_effect.empty())
        slurm_info("berth: plugstack.conf: words of Pyxis without an effect here: %s; take them out, or see "
                   "berth-migration(7)",
                   step().config.without_effect.c_str());
    step().beside_pyxis = pyxis_is_loaded();
    if (step().beside_pyxis && !in_slurmstepd()) return stand_back();
    // Before anything looks for them.
    if (in_slurmstepd() && is_script(spank)) restore_variables(spank);
    if (step().beside_pyxis) take_pyxis_variables(spank);
    if (takes_options() && !in_slurmstepd()) forget_carried_variables();
    if (takes_options()) {
        register_options(spank);
        register_mig_options(spank);
    }
    if (spank_context() == S_CTX_LOCAL) offer_environment_options();
}

bool pyxis_does_the_work(spank_t spank) {
    return step().beside_pyxis && !(in_slurmstepd() && step_is_ours(spank));
}

/// A batch job runs what its tag means at its submission, however long it waits; salloc's steps ask when they start.
void freeze_image() {
    if (spank_context() == S_CTX_LOCAL)
        start_resolving();
    else if (is_sbatch())
        resolve_now();
}

/// srun, sbatch and salloc have read their command line, or a component's part of it.
void take_options(spank_t spank) {
    if (is_sbatch() && is_later_part()) return;
    plan::GivenOptions own = own_options();
    take_environment_options();
    take_environment_file(own);
    check_image();
    leave_option_names();
    leave_mounts();
    note_options();
    pass_mig_options(spank);
    freeze_image();
    if (is_sbatch()) {
        carry_to_script(spank);
        keep_first_part();
    } else if (spank_context() == S_CTX_ALLOCATOR) {
        note_without_shell();
    }
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int slurm_spank_init(spank_t spank, int count, char** words) {
    return guarded([&] { initialize(spank, count, words); });
}

int slurm_spank_init_post_opt(spank_t spank, int, char**) {
    return guarded([&] {
        if (in_slurmstepd()) note_job(spank);
        if (pyxis_does_the_work(spank)) return;
        if (takes_options() && !in_slurmstepd()) take_options(spank);
        if (in_slurmstepd()) prepare_step(spank);
    });
}

int slurm_spank_local_user_init(spank_t spank, int, char**) {
    uint32_t nodes = 0;
    if (spank_get_item(spank, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS) nodes = 1;
    return guarded([&] { finish_resolving(spank, nodes); });
}

int slurm_spank_user_init(spank_t spank, int, char**) {
    return guarded([&] { start_step(spank); });
}

int slurm_spank_task_post_fork(spank_t spank, int, char**) {
    return guarded([&] { watch_task(spank); });
}

int slurm_spank_task_init(spank_t spank, int, char**) {
    return guarded([&] { join_container(spank); });
}

int slurm_spank_task_exit(spank_t spank, int, char**) {
    return guarded([&] { task_ended(spank); });
}

int slurm_spank_job_epilog(spank_t spank, int count, char** words) {
    guarded([&] {
        step().config = parse_config(count, words);
        end_job(spank);
    });
    // An error would drain the node; what is left is swept later.
    return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t, int, char**) {
    return guarded([&] { end_step(); });
}
}

#pragma GCC visibility pop
