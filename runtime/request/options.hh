// The container options of srun, sbatch and salloc: their table, their grammar, and the Request they stand for. Pure.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/request/request.hh"

namespace berth::plan {

struct OptionInfo {
    const char* name;      ///< without the dashes
    const char* argument;  ///< grammar shown in --help; nullptr for a flag
    const char* usage;
    const char* opposite;  ///< the option it contradicts, or nullptr
};

/// All options, in the order of --help.
const std::vector<OptionInfo>& option_table();

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

/// True when there is an image or a name: without either the other options have no effect.
bool asks_for_container(const GivenOptions& options);

/// One line that says which options have no effect because no container is asked for; empty when there is nothing to
/// say.
std::string ignored_note(const GivenOptions& options);

/// What the options ask for. Throws Error as check_option() does.
Request request_of(const GivenOptions& options);

}  // namespace berth::plan
