#include "runtime/request/option_names.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

const char* const options_variable = "SLURM_BERTH_OPTIONS";

std::string names_of(const GivenOptions& options) {
    std::string out;
    for (const auto& [name, value] : options)
        if (!is_none(name, value)) out += cat(out.empty() ? "" : " ", name);
    return out;
}

void check_option_names(const std::vector<std::string>& environment) {
    const char* names = variable(environment, options_variable);
    if (names == nullptr) return;
    for (const std::string& name : split(names, ' '))
        if (!name.empty() && srun_option(name) == nullptr)
            throw Error(cat("--", printable(name),
                            ": the berth of this node does not have this option, which that of srun has; leave it out, "
                            "or choose nodes of srun's release"));
}

}  // namespace berth::plan
