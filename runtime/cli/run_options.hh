// The options that `berth run` and `berth plan` share.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/image_config.hh"
#include "runtime/request/request.hh"

namespace berth::cli {

/// Help texts that run and exec share. Without --tty the command has the caller's terminal itself, as with Apptainer
/// and Enroot: nothing stands between them, and it is a job of the caller's shell.
inline constexpr const char* interactive_help =
    "accepted for podman's users: the command has the standard input in any case";
inline constexpr const char* terminal_help =
    "a terminal of the container's own, relayed to the caller's (as docker -it); not needed for interactive work: "
    "without it the command has the caller's "
    "terminal itself";

inline constexpr const char* job_help =
    "the container is one that the steps of this job share (container_scope \"job\")";

struct RunOptions {
    plan::Request request;
    std::vector<std::string> set;      ///< NAME=VALUE of --env, for the command's environment
    std::vector<std::string> mounts;   ///< the texts that request.mounts comes from
    std::vector<std::string> command;  ///< empty: the image's
    std::optional<bool> entrypoint;    ///< the image's goes before the command; unset: only when there is no command
    std::string name;                  ///< NAME[:MODE] of a container that stays; empty: none
    uint32_t job = 0;                  ///< whose steps alone share the name; 0: all commands of the user
    std::string save;                  ///< file to save the container in; empty: none
    bool terminal = false;             ///< the command gets one of the container's
    bool verbose = false;
    bool quiet = false;
    bool json = false;                 ///< of plan: for programs
    bool cdi = false;                  ///< of plan: the devices as a CDI specification
};

/// What is run: the command with or without the image's entrypoint. Throws Error with exit code 127 when there is
/// nothing to run.
std::vector<std::string> command_of(const RunOptions& options, const plan::ImageConfig& image);

/// This process's environment with NAME=VALUE texts set.
std::vector<std::string> environment_with(const std::vector<std::string>& set);

/// Takes --env texts apart: names whose value outside counts, and what is to be set. Throws Error.
void take_environment(const std::vector<std::string>& texts, RunOptions& options);

/// Parses the command line of `word` ("run" or "plan"). After --help or a mistake the text has been printed, `code` is
/// set and false is returned.
bool parse_run_options(const std::string& word, int argc, char** argv, RunOptions& options, int& code);

}  // namespace berth::cli
