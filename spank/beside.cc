#include "spank/beside.hh"

#include <link.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/request/environment_options.hh"
#include "runtime/request/option_names.hh"
#include "runtime/request/options.hh"
#include "spank/carried.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

int look_for_pyxis(dl_phdr_info* object, size_t, void* found) {
    // The program itself has no name.
    std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
    if (path.substr(path.rfind('/') + 1).find("pyxis") == path.npos) return 0;
    *static_cast<bool*>(found) = true;
    return 1;
}

}  // namespace

bool pyxis_is_loaded() {
    bool found = false;
    dl_iterate_phdr(look_for_pyxis, &found);
    return found;
}

void stand_back() {
    unsetenv(plan::options_variable);
    if (spank_context() == S_CTX_JOB_SCRIPT) return;
    slurm_spank_log(
        "berth: plugstack.conf loads the plugin of Pyxis as well, which has the same options: Pyxis does the work, and "
        "Berth nothing; take out the line of one of them (Berth's: berth setup plugstack --disable)");
}

void take_pyxis_variables(spank_t spank) {
    if (job_variable(spank, plan::options_variable).empty()) return;
    for (const plan::SrunOption& option : plan::srun_options()) {
        std::string pyxis = plan::variable_name("PYXIS_", option.name);
        std::string value = job_variable(spank, pyxis);
        if (value.empty()) continue;
        spank_setenv(spank, plan::variable_name("BERTH_", option.name).c_str(), value.c_str(), 0);
        spank_unsetenv(spank, pyxis.c_str());
    }
}

bool step_is_ours(spank_t spank) {
    return !step().options.empty() || !job_variable(spank, plan::options_variable).empty();
}

}  // namespace berth::spank
