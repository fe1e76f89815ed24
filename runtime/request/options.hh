// The options that say what a container is to be: their table, their grammar, and the Request they stand for. Pure.
//
// A row of the table is all that srun, sbatch and salloc, `berth run`, `plan` and `exec`, the environment variables,
// the messages to the helper, the record of a named container, --help and the completions know of an option.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/completion.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

/// How `berth run` and `berth plan` write an option. Without `names` and `words` they do not have it.
struct RunOption {
    const char* names = nullptr;  ///< "-w,--workdir"
    const char* help = nullptr;
    const char* opposite_names = nullptr;  ///< of a flag with an opposite
    const char* opposite_help = nullptr;
    bool repeats = false;                        ///< may be given several times, each of which adds
    Completion completion = Completion::nothing;  ///< of its value
    bool of_exec = false;                        ///< `berth exec` has it as well

    /// In place of one option a flag --WORD for each of these, which add_text() of the record takes.
    struct Word {
        const char* word;
        const char* help;
    };
    std::span<const Word> words = {};
};

/// How the record of a named container keeps an option. Without `key` it does not.
struct RecordedOption {
    /// Who takes the recorded value where the start gives none: `berth exec`, or `berth run --name` as well.
    enum class Reader { exec, exec_and_run };
    const char* key = nullptr;
    Reader reader = Reader::exec;
    /// The value as lines of the record; none when it is unset.
    std::vector<std::string> (*texts)(const Request&) = nullptr;
    /// Takes one of these lines; false when this version does not know it. `setting` is its name for an Error.
    bool (*add_text)(Request&, const std::string& text, const std::string& setting) = nullptr;
};

/// A row of the table. A row has either `set` or `choose`.
struct Option {
    /// Of srun, sbatch and salloc, without the dashes. BERTH_CONTAINER_WORD and PYXIS_CONTAINER_WORD follow from it.
    const char* name;
    const char* argument = nullptr;  ///< grammar of the value, shown in --help; nullptr for a flag
    const char* usage;               ///< srun's --help
    const char* opposite = nullptr;  ///< of a flag: the name that says no
    const char* opposite_usage = nullptr;
    /// Throws Error, which does not name the option. A second call adds to the first if the option repeats.
    void (*set)(Request&, std::string_view value) = nullptr;
    void (*choose)(Request&, bool yes) = nullptr;
    bool adds = false;  ///< of srun: may be given several times, see mount_values.hh
    RunOption run = {};
    RecordedOption record = {};
};

/// The option of srun of which each one adds, without the dashes: see mount_values.hh.
inline constexpr const char* mount_option = "container-mount";

/// All options, in the order of --help.
std::span<const Option> option_table();

/// What a user of srun, sbatch or salloc writes: an option, or the opposite of one.
struct SrunOption {
    const char* name;      ///< without the dashes
    const char* argument;  ///< grammar shown in --help; nullptr for a flag
    const char* usage;
    const char* opposite;  ///< the option it contradicts, or nullptr
    const Option* option;
    bool yes;  ///< false for the opposite of a flag
};

/// In the order of the table, an opposite after its option.
const std::vector<SrunOption>& srun_options();

/// The one of that name, or nullptr.
const SrunOption* srun_option(std::string_view name);

/// The options of one start as the user gave them: name without dashes, value ("" for a flag). In the order of the
/// table, each at most once.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

/// The value of option `name`, or nullptr.
const std::string* given(const GivenOptions& options, std::string_view name);

/// Throws Error (with the option's name and a caret) when `value` is not what option `name` takes.
void check_option(std::string_view name, std::string_view value);

/// Adds an option to those given so far. Throws Error when it was given with another value, or contradicts one of them.
void add_option(GivenOptions& options, std::string_view name, std::string_view value);

/// As add_option(), but what was given first wins silently: for options that come again by way of the environment.
void add_option_if_new(GivenOptions& options, std::string_view name, std::string_view value);

/// Takes an option back, if it was given.
void remove_option(GivenOptions& options, std::string_view name);

/// True for the empty value of an option that asks for a container (`--container-image=`): none, whatever a surrounding
/// job or a variable has. It is kept among the given options, so that nothing else takes its place.
bool is_none(std::string_view name, std::string_view value);

/// True when there is an image, a name or an environment: without one the other options have no effect.
bool asks_for_container(const GivenOptions& options);

/// One line that says which options have no effect because no container is asked for; empty when there is nothing to
/// say.
std::string ignored_note(const GivenOptions& options);

/// What the options ask for. Throws Error as check_option() does.
Request request_of(const GivenOptions& options);

}  // namespace berth::plan
