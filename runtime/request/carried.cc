#include "runtime/request/carried.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/request/definition.hh"
#include "runtime/request/frozen.hh"
#include "runtime/request/mig.hh"
#include "runtime/request/mount_values.hh"
#include "runtime/request/option_names.hh"

namespace berth::plan {

const char* const enters_variable = "SLURM_BERTH_ENTERS";

namespace {

constexpr std::string_view of_slurm = "SLURM_";

bool has_come(const GivenOptions& options, const std::string& name) {
    const SrunOption* option = srun_option(name);
    return given(options, name) != nullptr ||
           (option != nullptr && option->opposite != nullptr && given(options, option->opposite) != nullptr);
}

}  // namespace

std::string carried_option(std::string_view option) {
    std::string out = cat("SLURM_SPANK__SLURM_SPANK_OPTION_berth_", option);
    std::replace(out.begin(), out.end(), '-', '_');
    return out;
}

void add_carried_options(GivenOptions& options, const std::vector<std::string>& environment) {
    for (const SrunOption& option : srun_options())
        // Slurm writes "(null)" for a flag's value.
        if (const char* value = variable(environment, carried_option(option.name)))
            add_option_if_new(options, option.name, option.argument != nullptr ? value : "");
}

const std::vector<const char*>& script_variables() {
    static const std::vector<const char*> all = {options_variable,    mounts_variable,           frozen_variable,
                                                 definition_variable, definition_named_variable, mig_per_task_variable};
    return all;
}

std::string control_name(std::string_view variable) { return std::string(variable.substr(of_slurm.size())); }

std::string carried_variable(std::string_view variable) { return cat("SLURM_SPANK_", control_name(variable)); }

std::string submission_mark() { return carried_variable(options_variable); }

std::string missing_note(const GivenOptions& options, const std::vector<std::string>& environment) {
    const char* names = variable(environment, submission_mark());
    if (names == nullptr) return {};
    std::string missing;
    for (const std::string& name : split(names, ' '))
        if (!name.empty() && !has_come(options, name)) missing += cat(missing.empty() ? "" : ", ", "--", name);
    if (missing.empty()) return {};
    return cat(printable(missing, 1024),
               ": sbatch took this from a variable, which --export or --export-file has left out since: it has no "
               "effect; give the option, or let the variable pass");
}

}  // namespace berth::plan
