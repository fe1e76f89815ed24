#include "spank/options.hh"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/options.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

/// `image.sqsh` is by the grammar an image of a registry; nobody means that when there is such a file.
void check_not_a_file(std::string_view image) {
    struct stat info;
    std::string path(image);
    if (!path.ends_with(".sqsh") || path.starts_with('/') || path.starts_with('.') || stat(path.c_str(), &info) != 0) return;
    throw Error(cat("--container-image: ", printable(path), " would be fetched from a registry; for the file write ./", printable(path)));
}

/// True when `value` is what a surrounding salloc or sbatch left for the option, which a flag of this command may replace. Slurm hands such
/// values over before the command line, through the same callback.
bool is_inherited(const plan::OptionInfo& option, const std::string& value) {
    std::string variable = cat("SLURM_SPANK__SLURM_SPANK_OPTION_berth_", option.name);
    std::replace(variable.begin(), variable.end(), '-', '_');
    const char* inherited = std::getenv(variable.c_str());
    return inherited != nullptr && value == inherited;
}

void take_on_submit_side(const plan::OptionInfo& option, std::string_view value) {
    plan::check_option(option.name, value);
    if (std::string_view(option.name) == "container-image") check_not_a_file(value);
    const std::string* before = plan::given(step().options, option.name);
    if (before != nullptr && is_inherited(option, *before)) plan::remove_option(step().options, option.name);
    plan::add_option(step().options, option.name, value);
}

/// Called by Slurm with the index of the option in the table.
int take_option(int index, const char* argument, int remote) {
    try {
        const plan::OptionInfo& option = plan::option_table().at(static_cast<size_t>(index));
        std::string_view value = argument != nullptr && option.argument != nullptr ? argument : "";
        if (remote == 0)
            take_on_submit_side(option, value);
        else
            // Only kept here: slurmstepd is root and parses nothing. Options of the step come before those that a surrounding salloc left in
            // the environment, so the first one wins.
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
    for (const plan::OptionInfo& info : plan::option_table()) {
        // Slurm copies the strings and changes nothing in them.
        spank_option option{const_cast<char*>(info.name),
                            const_cast<char*>(info.argument),
                            const_cast<char*>(info.usage),
                            info.argument != nullptr,
                            index++,
                            take_option};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS) throw Error(cat("Slurm does not take the option --", info.name));
    }
}

void note_ignored_options() {
    std::string note = plan::ignored_note(step().options);
    if (!note.empty()) slurm_spank_log("berth: %s", note.c_str());
}

}  // namespace berth::spank
