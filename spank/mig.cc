#include "spank/mig.hh"

#include <cstdlib>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/request/mig.hh"
#include "spank/options.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

std::string wanted;
bool per_task = false;

/// slurmstepd parses nothing: what counts in a step is in its environment.
int take_mig(int, const char* argument, int remote) {
    if (remote != 0) return 0;
    try {
        refuse_in_scrontab("mig");
        wanted = plan::mig_text(plan::parse_mig(argument != nullptr ? argument : ""));
        return 0;
    } catch (const std::exception& error) {
        slurm_spank_log("berth: --mig: %s", error.what());
        return -1;
    }
}

int take_per_task(int, const char*, int remote) {
    try {
        if (remote == 0) refuse_in_scrontab("mig-per-task");
        per_task = true;
        return 0;
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s", error.what());
        return -1;
    }
}

void register_option(spank_t spank, const char* name, const char* argument, const char* usage, spank_opt_cb_f take) {
    // Slurm copies the strings and changes nothing in them.
    spank_option option{const_cast<char*>(name), const_cast<char*>(argument), const_cast<char*>(usage),
                        argument != nullptr,     0,                           take};
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
        throw Error(std::string("adding the option --") + name +
                    ": Slurm refuses it; see whether another plugin in plugstack.conf has one of that name");
}

}  // namespace

void register_mig_options(spank_t spank) {
    register_option(spank, "mig", "PROFILE[:N][,PROFILE[:N]...]",
                    "divide each GPU of the job into these MIG devices", take_mig);
    register_option(spank, "mig-per-task", nullptr, "each task on a node sees one MIG device of its own",
                    take_per_task);
}

void pass_mig_options(spank_t spank) {
    if (!wanted.empty()) {
        if (spank_job_control_setenv(spank, plan::mig_word, wanted.c_str(), 1) != ESPANK_SUCCESS)
            throw Error("--mig: Slurm takes nothing for Prolog here; give the option to sbatch, salloc or srun");
        setenv(plan::mig_variable, wanted.c_str(), 1);
    }
    if (per_task) setenv(plan::mig_per_task_variable, "1", 1);
}

}  // namespace berth::spank
