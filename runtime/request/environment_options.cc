#include "runtime/request/environment_options.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

/// What one variable says; nothing for a "no" to a flag that is off anyway.
std::vector<EnvironmentOption> told_by(const SrunOption& info, const std::string& variable, std::string_view value) {
    EnvironmentOption out{info.name, "", ""};
    try {
        if (info.argument != nullptr) {
            out.value = value;
            check_option(info.name, value);
        } else if (!parse_bool(value, variable)) {
            if (info.opposite == nullptr) return {};
            out.name = info.opposite;
        }
    } catch (const Error& problem) {
        std::string line = problem.what();
        out.problem = line.starts_with(variable) ? line : cat(variable, ": ", line);
    }
    return {out};
}

const char* opposite_of(const std::string& name) {
    const SrunOption* option = srun_option(name);
    return option != nullptr ? option->opposite : nullptr;
}

/// Adds `option` to those found, or finds fault with it.
void join(std::vector<EnvironmentOption>& found, EnvironmentOption option, const std::string& variable) {
    const char* opposite = opposite_of(option.name);
    for (EnvironmentOption& before : found) {
        if (before.name == option.name && before.value == option.value &&
            before.problem.empty() == option.problem.empty())
            return;
        if (before.problem.empty() && (before.name == option.name || (opposite != nullptr && before.name == opposite)))
            option.problem = cat(variable, ": contradicts another variable, which stands for --", before.name,
                                 before.value.empty() ? "" : "=", printable(before.value, 4096));
    }
    found.push_back(std::move(option));
}

/// What scripts set for Enroot, which Pyxis starts with the job's environment.
struct EnrootVariable {
    const char* name;
    const char* option;
};
constexpr EnrootVariable enroot_variables[] = {{"ENROOT_REMAP_ROOT", "container-remap-root"},
                                               {"ENROOT_MOUNT_HOME", "container-mount-home"},
                                               {"ENROOT_ROOTFS_WRITABLE", "container-writable"}};

bool says_anything(const std::vector<EnvironmentOption>& found, const std::string& option) {
    const char* opposite = opposite_of(option);
    return std::any_of(found.begin(), found.end(), [&](const EnvironmentOption& one) {
        return one.name == option || (opposite != nullptr && one.name == opposite);
    });
}

}  // namespace

std::string variable_name(const char* prefix, std::string_view option) {
    std::string out = cat(prefix, option);
    for (char& letter : out)
        letter = letter == '-' ? '_' : static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
    return out;
}

std::vector<EnvironmentOption> environment_options(const std::vector<std::string>& environment) {
    std::vector<EnvironmentOption> found;
    for (const SrunOption& info : srun_options()) {
        if (std::string_view(info.name).starts_with("no-")) continue;
        for (const char* prefix : {"BERTH_", "PYXIS_"}) {
            std::string variable = variable_name(prefix, info.name);
            const char* value = berth::variable(environment, variable);
            if (value == nullptr || *value == '\0') continue;
            for (EnvironmentOption& option : told_by(info, variable, value))
                join(found, std::move(option), variable);
        }
    }
    return found;
}

std::vector<EnvironmentOption> enroot_options(const std::vector<std::string>& environment) {
    std::vector<EnvironmentOption> before = environment_options(environment), out;
    for (const EnrootVariable& one : enroot_variables) {
        const char* value = berth::variable(environment, one.name);
        if (value == nullptr || *value == '\0' || says_anything(before, one.option)) continue;
        for (EnvironmentOption& option : told_by(*srun_option(one.option), one.name, value))
            out.push_back(std::move(option));
    }
    return out;
}

void add_environment_options(GivenOptions& options, const std::vector<std::string>& environment) {
    // What was given beats all variables of an option and its opposite; so it is looked at before any of them is added.
    const GivenOptions before = options;
    std::vector<EnvironmentOption> found = environment_options(environment);
    auto counts = [&](const EnvironmentOption& option) {
        const char* opposite = opposite_of(option.name);
        return given(before, option.name) == nullptr && (opposite == nullptr || given(before, opposite) == nullptr);
    };
    // They say how a container is, never that there is to be one.
    if (asks_for_container(options) || std::any_of(found.begin(), found.end(), [&](const EnvironmentOption& option) {
            return counts(option) && asks_for_container({{option.name, option.value}});
        }))
        for (EnvironmentOption& option : enroot_options(environment)) found.push_back(std::move(option));
    for (const EnvironmentOption& option : found) {
        if (!counts(option)) continue;
        if (!option.problem.empty()) throw Error(option.problem);
        add_option_if_new(options, option.name, option.value);
    }
}

}  // namespace berth::plan
