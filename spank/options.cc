#include "spank/options.hh"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/option_names.hh"
#include "runtime/request/options.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

/// `image.sqsh` is by the grammar an image of a registry; nobody means that when there is such a file.
void check_not_a_file(std::string_view image) {
    struct stat info;
    std::string path(image);
    if (!path.ends_with(".sqsh") || path.starts_with('/') || path.starts_with('.') || stat(path.c_str(), &info) != 0)
        return;
    throw Error(cat("--container-image: ", printable(path), " would be fetched from a registry; for the file write ./",
                    printable(path)));
}

/// Where a surrounding salloc or sbatch leaves the value of an option for us. Slurm hands such values over before the
/// command line, through the same callback.
std::string inheritance(std::string_view option) {
    std::string variable = cat("SLURM_SPANK__SLURM_SPANK_OPTION_berth_", option);
    std::replace(variable.begin(), variable.end(), '-', '_');
    return variable;
}

/// On the submit side, the options whose last value replaced another one.
std::set<std::string> given_twice;

/// True when `value` is inherited so, and a flag of this command may replace it.
bool is_inherited(const plan::SrunOption& option, const std::string& value) {
    const char* inherited = std::getenv(inheritance(option.name).c_str());
    return inherited != nullptr && value == inherited;
}

/// SPANK has one value of an option for all parts of a heterogeneous step (`srun ... : ...`), which are read one after
/// the other.
bool has_parts() {
    std::string words = sys::read_file("/proc/self/cmdline", 1 << 22);
    return words.find(std::string_view("\0:\0", 3)) != words.npos;
}

/// Generators of command lines add options to those of a user. Slurm hands the last value to the nodes.
void replace(const plan::SrunOption& option, const std::string& before, std::string_view value) {
    if (!is_inherited(option, before)) {
        if (has_parts()) plan::add_option(step().options, option.name, value);
        given_twice.insert(option.name);
    }
    plan::remove_option(step().options, option.name);
}

void take_on_submit_side(const plan::SrunOption& option, std::string_view value) {
    plan::check_option(option.name, value);
    if (std::string_view(option.name) == "container-image") check_not_a_file(value);
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
        setenv(inheritance(option.name).c_str(), option.value.c_str(), 0);
    }
}

plan::GivenOptions own_options() {
    plan::GivenOptions out = step().options;
    std::erase_if(out, [](const auto& one) {
        const char* inherited = std::getenv(inheritance(one.first).c_str());
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
    if (const std::string* image = plan::given(step().options, "container-image")) check_not_a_file(*image);
}

void leave_option_names() {
    std::string names = plan::names_of(step().options);
    if (names.empty())
        unsetenv(plan::options_variable);
    else
        setenv(plan::options_variable, names.c_str(), 1);
}

void note_options() {
    // Not as they come: sbatch reads its command line twice.
    for (const std::string& name : given_twice)
        if (const std::string* value = plan::given(step().options, name))
            slurm_spank_log("berth: --%s is given twice; the last one counts: %s", name.c_str(),
                            printable(*value, 4096).c_str());
    std::string note = plan::ignored_note(step().options);
    if (!note.empty()) slurm_spank_log("berth: %s", note.c_str());
}

}  // namespace berth::spank
