// The options of `berth run`, `plan` and `exec`: those of the table in runtime/request/options.cc, and a few about this
// command alone.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/container/named/instance.hh"
#include "runtime/plan/edit.hh"
#include "runtime/plan/image_config.hh"
#include "runtime/cli/running_job.hh"
#include "runtime/request/request.hh"

namespace berth::cli {

inline constexpr const char* job_help =
    "the container is one that the steps of this job share (container_scope \"job\")";

struct RunOptions {
    plan::Request request;
    std::vector<std::string> set;      ///< NAME=VALUE of --env, for the command's environment
    std::vector<std::string> command;  ///< empty: the image's
    uint32_t job = 0;                  ///< whose steps alone share the name; 0: all commands of the user
    bool terminal = false;             ///< the command gets one of the container's
    bool verbose = false;
    bool quiet = false;
    bool record = false;               ///< of profile: what the command reads of the image is kept in the store
    bool json = false;                 ///< of plan: for programs
    bool cdi = false;                  ///< of plan: the devices as a CDI specification
    bool environment_without_image = false;  ///< --environment is there and names none

    // Of the front end for Enroot's users (runtime/cli/enroot) alone.
    std::string folder, scope;          ///< where the named container is; empty: at the site's place, by `job`
    std::vector<std::string> wrapper;   ///< words before the whole command
    std::vector<std::string> fallback;  ///< what is run where the image names no command; empty: that is an error
    /// which of this process's variables the command gets, besides those of request.env; empty: all
    std::function<bool(const std::string& name)> passes = {};

    // Of the front end for Apptainer's users (runtime/cli/apptainer) alone.
    /// the same, but what is left out still counts for the container's devices
    std::function<bool(const std::string& name)> reaches = {};
    std::string home;                        ///< in the container; empty: as outside
    bool keeps_locale = false;               ///< LANG and the like get in
    bool workdir_may_miss = false;           ///< the working directory is made where the image has none
    std::vector<std::string> script_reader;  ///< words before a command whose image has scripts to read
    bool needs_script_reader = false;        ///< or before every command
    std::vector<plan::Edit> edits;           ///< after those of the plan
    std::string step;                        ///< with whose equal starts it shares a container; empty: it has its own
    std::string overlay;                     ///< folder that takes what is written; empty: the site's way
    std::vector<plan::Edit> layers;          ///< before those of the plan: what lies over the image's files
    bool in_place = false;                   ///< what is written goes to the image, a directory
    std::vector<std::string> left_out;       ///< targets inside of the node's files that are not to be mounted
    std::string hostname;                    ///< of the container; empty: the node's
    bool image_modes = false;                ///< files show the image's modes, whatever mount.modes says
    /// of an instance: it starts in the background, and its keeper becomes known; none: the command is waited for
    InstanceRecord* instance = nullptr;
    std::string start_script;  ///< what an instance starts when its image has it; empty: what the image is for
    std::function<int(const Error& error)> complain = {};    ///< of start_task()
    std::function<void(const std::string& line)> tell = {};  ///< in place of a line "berth: ..." on standard error
};

/// Throws `error`, which the image written as `word` has met; where the environment names none, the word may have been
/// meant as the command, and the line says so.
[[noreturn]] void rethrow_for_image(const RunOptions& options, const std::string& word, const Error& error);

/// What is run: the command with or without the image's entrypoint, which goes before it when that is asked for, and
/// without a word about it only when there is no command. Throws Error with exit code 127 when there is
/// nothing to run.
std::vector<std::string> command_of(const RunOptions& options, const plan::ImageConfig& image);

/// `command` as it is run: `options.fallback` when it is empty, behind `options.wrapper`.
std::vector<std::string> wrapped(std::vector<std::string> command, const RunOptions& options);

/// What the command's environment is made of: this process's, as far as it passes, with --env and the variables of
/// --environment that may choose devices.
std::vector<std::string> environment_for(const RunOptions& options);

/// Whether this environment is one of a job of Slurm's.
bool is_in_job(const std::vector<std::string>& environment);

/// As the plugin does for a task: Slurm's numbers of devices may not be those of the container.
std::vector<std::string> with_visible_devices(const std::vector<std::string>& environment,
                                              const std::vector<plan::VisibleDevices>& devices);

/// Removes from `environment` what does not reach the command, see RunOptions::reaches.
void keep_what_reaches(std::vector<std::string>& environment, const RunOptions& options);

/// Takes --env texts apart: names whose value outside counts, and what is to be set. Throws Error.
void take_environment(const std::vector<std::string>& texts, RunOptions& options);

/// Parses the command line of `word` ("run" or "plan"). After --help or a mistake the text has been printed, `code` is
/// set and false is returned. Without --tty the command has the caller's terminal itself, as with Apptainer and Enroot:
/// nothing stands between them, and it is a job of the caller's shell.
bool parse_run_options(const std::string& word, int argc, char** argv, RunOptions& options, int& code);

/// Of `berth exec`: that the command is for the container of a step of a job, which has its own name or none.
struct JobExec {
    bool wanted = false;
    JobTarget target;
    std::string node;       ///< empty: the first one
    bool terminal = false;    ///< the command gets one, as the caller has one
    bool ssh_server = false;  ///< no command, but an sshd on the standard streams
};

/// The same for `berth exec`. A job is meant when there is no NAME and "--" begins the command, or when the job is
/// written as JOB.STEP, or with a node; else `--job` is the one whose steps share the container NAME.
bool parse_exec_options(int argc, char** argv, RunOptions& options, JobExec& where, int& code);

}  // namespace berth::cli
