// Environment files (--container-environment): TOML into values, with what they are based on. Berth's own and the EDF
// of CSCS' container engine have one format (docs/adr/0107). Pure.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/definition.hh"
#include "runtime/request/expand.hh"

namespace berth::plan {

/// Bytes that a file may have.
inline constexpr size_t environment_file_limit = 64 << 10;

/// A value as written, and where: "FILE:LINE:COLUMN".
struct FileText {
    std::string text, place;
    bool operator==(const FileText&) const = default;
};

/// One file, before any ${VAR} is looked up.
struct EnvironmentFile {
    std::vector<FileText> bases;            ///< `base`, or `base_environment` of an EDF
    std::map<std::string, FileText> texts;  ///< of `image`, `workdir` and `name`, by the option of srun
    std::map<std::string, bool> choices;    ///< of `writable` and the like, by the option of srun
    std::vector<FileText> mounts;
    std::vector<FileText> devices;
    std::map<std::string, FileText> variables;  ///< of `env`, and OCI_ANNOTATION_* of annotations for hooks
    std::vector<std::string> unknown;  ///< keys that mean nothing here: "perfmon", "annotations.org.x"
};

/// Throws Error naming `path`, line and column for what is no TOML, or a value of a wrong type.
EnvironmentFile parse_environment_file(std::string_view text, const std::string& path);

/// A file that was found by its name.
struct FoundEnvironment {
    std::string path, text;
};
/// Finds NAME|FILE. Throws Error.
using EnvironmentFinder = std::function<FoundEnvironment(const std::string& name)>;

/// What an environment comes to.
struct ResolvedEnvironment {
    Definition definition;
    std::vector<std::string> files;  ///< all that were read, the first one last
    std::vector<std::string> notes;  ///< a line for each file with keys that mean nothing here
};

/// Reads the environment `name` and all that it is based on, the bases first, of which a later one counts more, as do
/// mounts and variables of a later one for one target or name. At most 10 deep and 64 files; an environment that is
/// based on itself is refused. ${VAR} in all but variables is looked up here. A relative workdir is from `folder`,
/// where one is given. Throws Error.
ResolvedEnvironment resolve_environment(const std::string& name, const EnvironmentFinder& find,
                                        const VariableLookup& value_of, const std::string& folder = {});

}  // namespace berth::plan
