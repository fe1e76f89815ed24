// `apptainer exec`, `run`, `shell` and `test`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/apptainer/variables.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/joint.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/plan/policy.hh"

namespace berth::cli {

using apptainer::Action;
using apptainer::Flag;
using apptainer::Given;
using apptainer::Kind;

namespace {

constexpr size_t file_limit = 1 << 20;
constexpr const char* runscript = "/.singularity.d/runscript";

/// A flag of the table on a command line.
struct Slot {
    const Flag* row;
    bool flag = false;
    std::string text = {};
    std::vector<std::string> list = {};
};

Completion completion_of(const std::string& name) {
    for (const char* path : {"bind", "cwd", "pwd", "home", "overlay", "workdir", "env-file"})
        if (name == path) return Completion::files;
    return name == "env" || name == "no-env" ? Completion::variables : Completion::nothing;
}

DeclaredOption declare_one(CommandLine& line, Slot& slot) {
    const Flag& row = *slot.row;
    if (row.kind == Kind::flag) return line.flag(row.names, slot.flag, row.help);
    Completion completion = completion_of(row.name());
    if (row.kind == Kind::text) return line.option(row.names, slot.text, row.help).completed_by(completion);
    return line.option(row.names, slot.list, row.help).completed_by(completion);
}

std::deque<Slot> declare(CommandLine& line, Action action) {
    std::deque<Slot> out;
    for (const Flag& row : apptainer::action_flags()) {
        if (row.name() == "shell" && action != Action::shell) continue;
        out.push_back({&row});
        DeclaredOption option = declare_one(line, out.back());
        if (row.standing == apptainer::Standing::refused) option.hidden();
    }
    return out;
}

Given given_on(const std::deque<Slot>& slots) {
    Given out;
    for (const Slot& slot : slots) {
        std::string name = slot.row->name();
        if (slot.row->kind == Kind::flag && slot.flag) out[name] = {""};
        if (!slot.text.empty()) out[name] = {slot.text};
        if (!slot.list.empty()) out[name] = slot.list;
    }
    return out;
}

std::vector<std::vector<std::string>> files_of(const Given& given) {
    std::vector<std::vector<std::string>> out;
    auto names = given.find("env-file");
    if (names == given.end()) return out;
    for (const std::string& text : names->second)
        for (const std::string& path : apptainer::csv_fields(text)) {
            Fd file = sys::open_file(path, O_RDONLY);
            out.push_back(apptainer::lines_of_file(sys::read_all(file.get(), file_limit, printable(path, 4096)), path));
        }
    return out;
}

apptainer::Ids ids_in_container(const Given& given) {
    return given.contains("fakeroot") ? apptainer::Ids{0, 0} : apptainer::Ids{::getuid(), ::getgid()};
}

/// The folders of --workdir and --overlay.
void make_folders(const apptainer::Start& start) {
    for (const std::string& folder : start.folders) sys::make_directories(folder, 0755);
    if (start.overlay.empty()) return;
    struct stat st {};
    if (::stat(start.overlay.c_str(), &st) == 0 && !S_ISDIR(st.st_mode))
        throw Error(cat("--overlay ", printable(start.overlay, 4096),
                        ": it is no folder, and image files are not put over an image; write a folder"));
    for (const char* part : {"upper", "work"}) sys::make_directories(cat(start.overlay, "/", part), 0755);
}

/// Whether the site lets its users mount `path`.
bool may_mount(const plan::Site& site, const std::string& path) try {
    plan::Mount mount;
    mount.source = path;
    mount.target = path;
    std::vector<plan::Edit> edits{{mount, "option --bind", "asked for"}};
    plan::judge_sources(site, edits, real_paths(plan::policy_paths(site, edits)));
    return true;
} catch (const Error&) {
    return false;
}

/// What nobody has asked for is no reason to fail where the site does not allow it.
void take_unasked(apptainer::Start& start, const plan::Caller& caller, const ApptainerSettings& settings) {
    plan::Site site = site_of_caller();
    auto allowed = [&](const std::string& path) {
        if (plan::allows_all_sources(site) || may_mount(site, path)) return true;
        tell_warning(settings,
                     cat(printable(path, 4096), " is not mounted, since policy.mount_sources does not have it"));
        return false;
    };
    if (start.request.mount_home == true && !allowed(caller.home)) start.request.mount_home = false;
    std::vector<plan::MountRequest> mounts;
    for (const plan::MountRequest& one : start.unasked)
        if (allowed(one.source)) mounts.push_back(one);
    mounts.insert(mounts.end(), start.request.mounts.begin(), start.request.mounts.end());
    start.request.mounts = std::move(mounts);
}

/// A directory that nobody has asked for may be hidden by a mount.
void take_other_workdir(apptainer::Start& start) {
    if (start.workdir_asked || !start.request.workdir) return;
    std::string shown = apptainer::shown_at(start, *start.request.workdir);
    if (struct stat st {}; !shown.empty() && (::stat(shown.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)))
        start.request.workdir.emplace("/");
}

/// A runscript that is mounted runs, also where the image has none.
void take_mounted_runscript(const apptainer::Start& start, RunOptions& options) {
    std::string shown = apptainer::shown_at(start, runscript);
    struct stat st {};
    if (shown.empty() || ::stat(shown.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return;
    options.request.entrypoint = false;
    options.command.insert(options.command.begin(), runscript);
}

/// Sets NAME=VALUE in the container, over what the image says and what was set before.
void set_variable(RunOptions& options, const std::string& text) {
    std::string name = text.substr(0, text.find('='));
    std::erase_if(options.set, [&](const std::string& one) { return one.starts_with(name + "="); });
    options.set.push_back(text);
    options.request.env.push_back(name);
}

void take_variables(RunOptions& options, const apptainer::Start& start, const apptainer::Variables& variables) {
    for (const std::string& text : start.set) set_variable(options, text);
    for (const std::string& text : variables.set) set_variable(options, text);
    options.request.variables = variables.expanded;
    for (const auto* texts : {&variables.expanded, &variables.evaluated})
        for (const std::string& text : *texts) {
            std::string name = text.substr(0, text.find('='));
            std::erase_if(options.set, [&](const std::string& one) { return one.starts_with(name + "="); });
            std::erase(options.request.env, name);
        }
}

RunOptions options_of(const apptainer::Start& start, const Given& given, const apptainer::Variables& variables,
                      const ApptainerSettings& settings) {
    RunOptions out;
    out.request = start.request;
    out.home = start.home;
    out.overlay = start.overlay;
    out.in_place = start.in_place;
    out.hostname = start.hostname;
    out.left_out = start.left_out;
    out.image_modes = true;
    out.workdir_may_miss = !start.workdir_asked;
    out.keeps_locale = true;
    out.reaches = apptainer::passing(given);
    out.fallback = {"/bin/sh"};
    out.quiet = settings.loudness <= Loudness::quiet;
    out.verbose = settings.loudness == Loudness::debug;
    out.tell = [settings](const std::string& line) { tell_note(settings, line); };
    out.complain = [](const Error& error) { return tell_fatal(error); };
    take_variables(out, start, variables);
    out.script_reader = apptainer::script_reader(out.set, variables, start.app);
    out.needs_script_reader = !variables.evaluated.empty() || !start.app.empty();
    out.edits = start.edits;
    return out;
}

/// With whose equal starts this one shares a container; empty: with nobody's.
std::string step_for(const apptainer::Start& start, const std::vector<std::string>& environment) {
    if (!start.joins) return {};
    std::string out = step_in_environment(environment);
    if (out.empty() && start.join_asked)
        throw Error("--sharens: processes share a container in a step of Slurm; elsewhere give it a name, by berth run "
                    "--name NAME IMAGE and berth exec NAME");
    return out;
}

/// What runs in the container, of the words behind the image.
std::vector<std::string> command_for(Action action, std::vector<std::string> words, const Given& given,
                                     const std::string& app, const ApptainerSettings& settings) {
    if (!app.empty() && action == Action::run) return apptainer::app_command(app, "runscript", words);
    if (!app.empty() && action == Action::test) return apptainer::app_command(app, "test", words);
    if (action == Action::test) return apptainer::test_command(words);
    if (action != Action::shell) return words;
    if (!words.empty()) tell_warning(settings, "Parameters to shell command are ignored");
    auto asked = given.find("shell");
    return apptainer::shell_command(asked == given.end() ? "" : asked->second.back());
}

int act(Action action, int argc, char** argv, const ApptainerSettings& settings) {
    const char* about = action == Action::exec  ? "Run a command in a container."
                        : action == Action::run ? "Run what the image is for: its runscript, or entrypoint and command."
                        : action == Action::shell ? "Run a shell in a container."
                                                  : "Run the tests that the image has.";
    CommandLine line(about, cat("apptainer ", word_of(action)));
    std::deque<Slot> slots = declare(line, action);
    std::string image;
    std::vector<std::string> words;
    line.argument("IMAGE", image,
                  "a SIF or squashfs file, a directory, docker://NAME[:TAG], oras://REGISTRY/NAME[:TAG], oci:DIR, "
                  "oci-archive:FILE, docker-archive:FILE")
        .required();
    line.ends_with_command(words);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    // As any other mistake on the command line.
    if (action == Action::exec && words.empty())
        return tell_fatal(Error("apptainer exec IMAGE COMMAND: the command is missing")), 1;
    Given given = given_on(slots);
    std::vector<std::string> environment = environment_of_this_process();
    apptainer::add_variables(given, environment);
    plan::Caller caller = caller_of_this_process();
    apptainer::Start start = apptainer::start_of(action, image, given, {caller.cwd, caller.home});
    apptainer::Variables variables =
        apptainer::variables_of(given, files_of(given), environment, ids_in_container(given));
    if (!apptainer::is_file(image)) tell_of_places(environment, given.contains("tmpdir"), settings);
    for (const std::string& text : start.warnings) tell_warning(settings, text);
    for (const std::string& text : variables.warnings) tell_warning(settings, text);
    take_unasked(start, caller, settings);
    take_other_workdir(start);
    RunOptions options = options_of(start, given, variables, settings);
    options.step = step_for(start, environment);
    options.command = command_for(action, std::move(words), given, start.app, settings);
    if (action == Action::run && start.app.empty()) take_mounted_runscript(start, options);
    options.request.image = opened_as(options.request.image, settings);
    make_folders(start);
    if (start.plain_umask) ::umask(022);
    return run_new(options);
}

}  // namespace

int apptainer_exec(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::exec, argc, argv, settings);
}
int apptainer_run(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::run, argc, argv, settings);
}
int apptainer_shell(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::shell, argc, argv, settings);
}
int apptainer_test(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::test, argc, argv, settings);
}

}  // namespace berth::cli
