// The flags of `apptainer exec`, `run` and `shell` (release 1.5), and what becomes of each here. Pure.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::apptainer {

/// done: it does what it does there. differs: `word` says how. refused: `word` says why, and what to do.
enum class Standing { done, differs, refused };

enum class Kind {
    flag,
    text,   ///< one value, of which the last counts
    list,   ///< values between commas; each time that it is written adds
    whole,  ///< each time that it is written is one value, with its commas
};

struct Flag {
    const char* names;      ///< "-B,--bind"
    const char* variables;  ///< "BIND BINDPATH": APPTAINER_BIND and so on; empty: none
    Kind kind;
    Standing standing;
    const char* help;  ///< for --help; of a flag that is refused nothing is shown there
    const char* word = "";
    bool adds_variable = false;  ///< what the variable says counts besides the command line, instead of giving way

    /// "bind"
    std::string name() const;
};

/// In the order of the alphabet.
std::span<const Flag> action_flags();

/// What was given, by the flag's name: the values; one empty value for a flag without any.
using Given = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Adds what APPTAINER_* and SINGULARITY_* among `environment` (NAME=VALUE) say, the former first; an empty value is as
/// good as none. Throws Error that names the variable for a flag's value that is neither true nor false.
void add_variables(Given& given, const std::vector<std::string>& environment);

/// Throws Error for the first flag that cannot be. Logins and the like do not count where the image is a file.
void refuse_flags(const Given& given, bool is_file);

/// The fields of a line of comma-separated values, in which "..." keeps commas and "" is a quote.
std::vector<std::string> csv_fields(std::string_view text);

}  // namespace berth::apptainer
