#include "spank/options.hh"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/request/carried.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/mount_values.hh"
#include "runtime/request/option_names.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/unknown_variables.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

/// `image.sqsh` is by the grammar an image of a registry; nobody means that, whether there is such a file or not.
void check_not_a_file(const std::string& path) {
    struct stat info;
    if (!path.ends_with(".sqsh") || path.starts_with('/') || path.starts_with('.')) return;
    if (stat(path.c_str(), &info) != 0) {
        if (!plan::looks_like_image_file(path)) return;
        throw Error(cat("--container-image: ", plan::missing_file_mistake(path)));
    }
    throw Error(cat("--container-image: ", printable(path), " would be fetched from a registry; for the file write ./",
                    printable(path)));
}

/// What is an image by the grammar and by nobody's wish.
void check_written_image(std::string_view image) {
    check_not_a_file(std::string(image));
    if (std::string mistake = plan::cut_image_mistake(image); !mistake.empty())
        throw Error(cat("--container-image: ", mistake));
}

/// On the submit side, the options whose last value replaced another one.
std::set<std::string> given_twice;

/// In sbatch, those of the first component of a heterogeneous job.
std::optional<plan::GivenOptions> first_part;

/// True when a surrounding salloc or sbatch has left `value` for us, and a flag of this command may replace it. Slurm
/// hands such values over before the command line, through the same callback.
bool is_inherited(const plan::SrunOption& option, const std::string& value) {
    const char* inherited = std::getenv(plan::carried_option(option.name).c_str());
    return inherited != nullptr && value == inherited;
}

/// SPANK has one value of an option for all parts of a heterogeneous step (`srun ... : ...`), which are read one after
/// the other.
bool has_parts() {
    std::string words = sys::read_file("/proc/self/cmdline", 1 << 22);
    return words.find(std::string_view("\0:\0", 3)) != words.npos;
}

/// salloc's --no-shell, which the command line may shorten, or its variable.
bool is_without_shell() {
    if (std::getenv("SALLOC_NO_SHELL") != nullptr) return true;
    constexpr std::string_view option = "--no-shell", shortest = "--no-s";
    std::vector<std::string> words = split(sys::read_file("/proc/self/cmdline", 1 << 22), '\0');
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return word.starts_with(shortest) && option.starts_with(word);
    });
}

/// Generators of command lines add options to those of a user. Slurm hands the last value to the nodes.
void replace(const plan::SrunOption& option, const std::string& before, std::string_view value) {
    // Those of sbatch are judged with each component (check_later_part).
    bool parts = has_parts();
    if (!is_inherited(option, before)) {
        if (parts && !is_sbatch()) plan::add_option(step().options, option.name, value);
        if (!parts) given_twice.insert(option.name);
    }
    plan::remove_option(step().options, option.name);
}

/// Not when the component is known whole: by then the first one's value has come back, which Slurm has left itself in
/// the environment.
void check_later_part(const std::string& name, std::string_view value) {
    if (!first_part) return;
    const std::string* before = plan::given(*first_part, name);
    if (before == nullptr || *before != value)
        throw Error(cat("--", name, ": a batch script runs in the first component of a heterogeneous job, and no other "
                        "component can have a container of its own; write the option before the first #SBATCH hetjob, "
                        "or give it to a step: srun --het-group=1 --", name, value.empty() ? "" : "=",
                        printable(value, 4096)));
}

/// The values of --container-mount on this command line.
std::vector<std::string> own_mounts;

/// Each one counts, once: sbatch reads its command line twice, before and after the lines of the script.
void add_mount(const plan::SrunOption& option, const std::string& value) {
    bool inherited = plan::given(step().options, option.name) == nullptr && is_inherited(option, value);
    if (!inherited) {
        if (!own_mounts.empty() && own_mounts.back() != value && has_parts())
            throw Error(cat("--", option.name, " is given twice, as ", printable(own_mounts.back(), 4096), " and as ",
                            printable(value, 4096), "; Slurm has one value of it for all parts of a step"));
        std::erase(own_mounts, value);
        own_mounts.push_back(value);
    }
    plan::remove_option(step().options, option.name);
    plan::add_option(step().options, option.name,
                     inherited ? plan::all_mounts(environment_of_this_process(), value)
                               : plan::joined_mounts(own_mounts));
}

void take_on_submit_side(const plan::SrunOption& option, std::string_view value) {
    refuse_in_scrontab(option.name);
    plan::check_option(option.name, value);
    if (option.option->adds) {
        // Of a later component: what Slurm has left itself in the environment is one of the first one's.
        if (first_part && std::find(own_mounts.begin(), own_mounts.end(), value) == own_mounts.end())
            check_later_part(option.name, value);
        if (!first_part) add_mount(option, std::string(value));
        return;
    }
    check_later_part(option.name, value);
    if (std::string_view(option.name) == "container-image") check_written_image(value);
    const std::string* before = plan::given(step().options, option.name);
    if (before != nullptr && *before != value) replace(option, std::string(*before), value);
    plan::add_option(step().options, option.name, value);
}

/// Called by Slurm with the index of the option in srun_options().
int take_option(int index, const char* argument, int remote) {
    try {
        const plan::SrunOption& option = plan::srun_options().at(static_cast<size_t>(index));
        std::string_view value = argument != nullptr && option.argument != nullptr ? argument : "";
        if (remote == 0)
            take_on_submit_side(option, value);
        else
            // Only kept here: slurmstepd is root and parses nothing. Options of the step come before those that a
            // surrounding salloc left in the environment, so the first one wins.
            plan::add_option_if_new(step().options, option.name, value);
        return 0;
    } catch (const std::exception& error) {
        slurm_spank_log("berth: %s", error.what());
        return -1;
    }
}

}  // namespace

bool is_sbatch() { return std::strcmp(program_invocation_short_name, "sbatch") == 0; }

void refuse_in_scrontab(const char* option) {
    if (std::strcmp(program_invocation_short_name, "scrontab") != 0) return;
    throw Error(cat("scrontab drops --", option, ", as it does with the options of all plugins, and the job would run "
                    "without; call `srun --", option, "...` or `sbatch SCRIPT` in the line's command"));
}

void register_options(spank_t spank) {
    int index = 0;
    for (const plan::SrunOption& info : plan::srun_options()) {
        // Slurm copies the strings and changes nothing in them.
        spank_option option{const_cast<char*>(info.name),
                            const_cast<char*>(info.argument),
                            const_cast<char*>(info.usage),
                            info.argument != nullptr,
                            index++,
                            take_option};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            throw Error(cat("adding the option --", info.name,
                            ": Slurm refuses it; see whether another plugin in plugstack.conf has one of that name"));
    }
}

void offer_environment_options() {
    std::vector<plan::EnvironmentOption> found = plan::environment_options(environment_of_this_process());
    for (const plan::EnvironmentOption& option : found) {
        bool in_doubt = std::any_of(found.begin(), found.end(), [&](const auto& other) {
            return other.name == option.name && !other.problem.empty();
        });
        // A flag offered so could not be taken back by its opposite on the command line.
        if (in_doubt || option.value.empty()) continue;
        setenv(plan::carried_option(option.name).c_str(), option.value.c_str(), 0);
    }
}

plan::GivenOptions own_options() {
    plan::GivenOptions out = step().options;
    std::erase_if(out, [](const auto& one) {
        if (plan::srun_option(one.first)->option->adds) return own_mounts.empty();
        const char* inherited = std::getenv(plan::carried_option(one.first).c_str());
        // Slurm writes "(null)" for a flag's value.
        bool flag = plan::srun_option(one.first)->argument == nullptr;
        return inherited != nullptr && (flag || one.second == inherited);
    });
    return out;
}

void take_environment_options() {
    plan::add_environment_options(step().options, environment_of_this_process());
}

void check_image() {
    if (const std::string* image = plan::given(step().options, "container-image")) check_written_image(*image);
}

void leave_option_names() {
    std::string names = plan::names_of(step().options);
    if (names.empty())
        unsetenv(plan::options_variable);
    else
        setenv(plan::options_variable, names.c_str(), 1);
}

void keep_first_part() { first_part = step().options; }

bool is_later_part() { return first_part.has_value(); }

void note_without_shell() {
    if (!plan::asks_for_container(step().options) || !is_without_shell()) return;
    slurm_spank_log(
        "berth: with --no-shell there is nothing to which the options for a container could be handed on: give them to "
        "each srun --jobid");
}

void leave_mounts() {
    const std::string* all = plan::given(step().options, plan::mount_option);
    if (all == nullptr)
        unsetenv(plan::mounts_variable);
    else
        setenv(plan::mounts_variable, all->c_str(), 1);
}

void note_options() {
    // Not as they come: sbatch reads its command line twice.
    for (const std::string& name : given_twice)
        if (const std::string* value = plan::given(step().options, name))
            slurm_spank_log("berth: --%s is given twice; the last one counts: %s", name.c_str(),
                            value->empty() ? "none" : printable(*value, 4096).c_str());
    std::string unknown = plan::unknown_variables_note(plan::unknown_variables(environment_of_this_process()));
    if (!unknown.empty()) slurm_spank_log("berth: %s", unknown.c_str());
    std::string note = plan::ignored_note(step().options);
    if (!note.empty()) slurm_spank_log("berth: %s", note.c_str());
}

}  // namespace berth::spank
