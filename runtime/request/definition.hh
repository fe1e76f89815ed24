// What an environment (--container-environment) stands for, read once where a step is asked for. It travels to the
// nodes in the job's environment, so that they need no file. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/options.hh"

namespace berth::plan {

/// An environment file with all that it is based on.
struct Definition {
    std::string name;                    ///< as --container-environment has it
    GivenOptions options;                ///< that the file stands for, but for mounts; each checked
    std::vector<std::string> mounts;     ///< as in --container-mounts, one mount each
    std::vector<std::string> variables;  ///< NAME=VALUE; ${VAR} is looked up on the node, where the image is known
    std::vector<std::string> devices;    ///< CDI names
    std::vector<std::string> replaced;   ///< options of a surrounding job that do not count beside this environment
    bool operator==(const Definition&) const = default;
};

/// "SLURM_BERTH_ENVIRONMENT": named as Slurm's own, since those pass whatever --export says.
extern const char* const definition_variable;

/// "SLURM_BERTH_ENVIRONMENT_NAMED": set beside it when the container has a name. slurmstepd has to know that and, being
/// root, does not look for it in the other.
extern const char* const definition_named_variable;

/// Bytes that a definition may take as text: the kernel allows 128 KiB for a variable.
inline constexpr size_t definition_limit = 100 << 10;

/// The definition as one line of printable ASCII. Throws Error when it is longer than definition_limit.
std::string definition_text(const Definition& definition);

/// Throws Error for what is no such text, and for a word that this release does not know: the container would be
/// another one than was asked for.
Definition parse_definition(std::string_view text);

/// The definition in the environment (NAME=VALUE) when it is that of `name`; nothing for none or another one.
std::optional<Definition> definition_in(const std::vector<std::string>& environment, std::string_view name);

/// For the submit side: notes in `definition.replaced` which of `options` do not count, and takes them out. Those are
/// the ones that the definition has, but that are not among `flags`, the ones that the user gave together with it.
void replace_options(GivenOptions& options, Definition& definition, const GivenOptions& flags);

/// For the node: takes those out.
void remove_replaced(GivenOptions& options, const Definition& definition);

/// Takes out of the definition what `options` have none of (is_none()).
void remove_unwanted(Definition& definition, const GivenOptions& options);

/// Fills in what `request` leaves open. Its own mounts come after the definition's; of two for one target its own
/// counts. Throws Error as request_of() does.
void complete(Request& request, const Definition& definition);

}  // namespace berth::plan
