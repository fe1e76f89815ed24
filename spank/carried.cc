#include "spank/carried.hh"

#include <cstdlib>
#include <string>

#include "runtime/request/carried.hh"
#include "runtime/request/options.hh"
#include "spank/step.hh"

namespace berth::spank {

void forget_carried_variables() {
    for (const char* variable : plan::script_variables()) unsetenv(plan::carried_variable(variable).c_str());
}

void carry_to_script(spank_t spank) {
    for (const char* variable : plan::script_variables())
        if (const char* value = std::getenv(variable); value != nullptr && plan::asks_for_container(step().options))
            spank_job_control_setenv(spank, plan::control_name(variable).c_str(), value, 1);
}

bool is_script(spank_t spank) {
    uint32_t id = 0;
    return spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS && id == SLURM_BATCH_SCRIPT;
}

void restore_variables(spank_t spank) {
    for (const char* variable : plan::script_variables())
        if (std::string value = job_variable(spank, plan::carried_variable(variable)); !value.empty())
            spank_setenv(spank, variable, value.c_str(), 0);
}

bool submission_asked(spank_t spank) { return !job_variable(spank, plan::submission_mark()).empty(); }

void drop_marks(spank_t spank) {
    for (const char* variable : plan::script_variables())
        spank_unsetenv(spank, plan::carried_variable(variable).c_str());
}

std::string job_variable(spank_t spank, const std::string& name) {
    constexpr size_t longest = 1 << 17;  // the kernel's limit for one string of an environment
    std::string value(longest, '\0');
    if (spank_getenv(spank, name.c_str(), value.data(), longest) != ESPANK_SUCCESS) return {};
    value.resize(value.find('\0'));
    return value;
}

}  // namespace berth::spank
