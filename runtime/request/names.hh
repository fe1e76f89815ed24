// Grammars of the small words a user gives: container names, environment variable names, absolute paths. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

struct Signs;

/// How a start may use a container of that name.
enum class NameMode {
    automatic,  ///< join it when it runs, else start it, else create it
    create,     ///< it must not be there
    exec,       ///< it must run
    no_exec,    ///< never share the mounts of one that runs
};

struct ContainerName {
    std::string name;
    NameMode mode = NameMode::automatic;
    bool operator==(const ContainerName&) const = default;
};

/// Throws Error unless `name` has 1 to 200 bytes of printable UTF-8, no `:` or `/`, and is not `.` or `..`: as Pyxis'.
void check_container_name(std::string_view name);

/// NAME[:auto|create|exec|no_exec]; nothing after the colon is auto. NAME may have signs (values.hh), which
/// with_signs() expands on the node. Throws Error.
ContainerName parse_container_name(std::string_view text);

/// NAME or FILE of --container-environment. Throws Error for an empty text, one of more than 4095 bytes or with control
/// characters, and a name with a component that is empty or "..".
std::string parse_environment_name(std::string_view text);

/// True for what names the file itself: it starts with . or / or ~/, or ends in ".toml", as CSCS' container engine has
/// it.
bool is_environment_path(std::string_view text);

/// NAME[,NAME...] of --container-env; each name is [A-Za-z_][A-Za-z0-9_]*. Throws Error with a caret.
std::vector<std::string> parse_env_names(std::string_view text);

/// The value of --container-workdir as an absolute path: a relative one starts at the container's root, as in Pyxis. No
/// NUL, and not below /proc. Throws Error with a caret.
std::string parse_workdir(std::string_view text);

/// The value of --container-save: the path of a file, absolute, relative or below ~/, with signs (values.hh). Throws
/// Error with a caret for what can only be a directory.
std::string parse_save_path(std::string_view text);

/// That path with the home and what its signs stand for. Throws Error.
std::string expanded_save_path(const std::string& path, const Signs& signs);

/// True for a path with %N or %n. Without one all nodes would write one file, so that the first of a step does.
bool saves_on_each_node(std::string_view path);

/// True for JOB.STEP, as containers without a name are called: digits, a dot, and digits, "batch" or "interactive".
bool is_step_name(std::string_view name);

/// 1/true/yes/y/on and 0/false/no/n/off, any case; throws Error naming `setting` for anything else.
bool parse_bool(std::string_view text, std::string_view setting);

}  // namespace berth::plan
