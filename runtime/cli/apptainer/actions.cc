// `apptainer exec`, `run`, `shell` and `test`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <tuple>

#include "runtime/apptainer/commands.hh"
#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/apptainer/variables.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/apptainer/instances.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/joint.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/plan/policy.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/reference.hh"
#include "runtime/sandbox/init.hh"

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

apptainer::Found found_at(const std::string& path) {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return apptainer::Found::nothing;
    return S_ISDIR(st.st_mode) ? apptainer::Found::folder : apptainer::Found::file;
}

/// The folders of --workdir and --overlay.
void make_folders(const apptainer::Start& start) {
    for (const std::string& folder : start.folders) sys::make_directories(folder, 0755);
    const std::string& overlay = start.overlays.writable;
    if (overlay.empty()) return;
    for (const char* part : {"upper", "work"}) sys::make_directories(cat(overlay, "/", part), 0755);
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
    out.overlay = start.overlays.writable;
    out.layers = start.overlays.layers;
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
        throw Error("--sharens: processes share a container in a step of Slurm; elsewhere start an instance, and write "
                    "instance://NAME");
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

const char* about(Action action, bool in_background) {
    if (in_background)
        return action == Action::start ? "Start a container in the background, and the image's startscript in it."
                                       : "Start a container in the background, and what the image is for in it.";
    return action == Action::exec    ? "Run a command in a container."
           : action == Action::run   ? "Run what the image is for: its runscript, or entrypoint and command."
           : action == Action::shell ? "Run a shell in a container."
                                     : "Run the tests that the image has.";
}

/// Of the words of a command line those that are no flags of the table.
struct ActionWords {
    std::string image, name, pid_file;
    bool boot = false;
    std::vector<std::string> rest;
};

void declare_words(CommandLine& line, ActionWords& words, bool in_background) {
    line.argument("IMAGE", words.image,
                  "a SIF or squashfs file, a directory, docker://NAME[:TAG], oras://REGISTRY/NAME[:TAG], oci:DIR, "
                  "oci-archive:FILE, docker-archive:FILE, instance://NAME")
        .required();
    if (in_background) {
        line.argument("NAME", words.name, "of the instance").required();
        line.option("--pid-file", words.pid_file, "file that the number of the instance's process is written to")
            .completed_by(Completion::files);
        line.flag("--boot", words.boot, "").hidden();
    }
    line.ends_with_command(words.rest);
}

/// An action on a command line, with what the environment says of it.
struct Act {
    Action action;
    ActionWords words;
    Given given;
    apptainer::Start start = {};
    apptainer::Variables variables = {};
};

/// The start of `image` by the caller, as far as it is the same for a new container and for one that runs.
void take_start(Act& act, const std::string& image, const plan::Caller& caller,
                const std::vector<std::string>& environment) {
    act.start = apptainer::start_of(act.action, image, act.given, {caller.cwd, caller.home, found_at});
    act.variables = apptainer::variables_of(act.given, files_of(act.given), environment, ids_in_container(act.given));
}

void tell_warnings(const Act& act, const ApptainerSettings& settings) {
    for (const std::string& text : act.start.warnings) tell_warning(settings, text);
    for (const std::string& text : act.variables.warnings) tell_warning(settings, text);
}

void name_instance(apptainer::Start& start, const std::string& name) {
    for (const char* prefix : {"APPTAINER_", "SINGULARITY_"}) start.set.push_back(cat(prefix, "INSTANCE=", name));
}

/// What is started in the background; its record.
InstanceRecord instance_for(Act& act, const plan::Caller& caller, const std::vector<std::string>& environment) {
    const std::string& name = act.words.name;
    if (act.words.boot)
        throw Error("--boot: no image's init is started; its startscript is, or by instance run its runscript");
    if (act.start.join_asked) throw Error("--sharens: commands share an instance by its name; leave the flag out");
    check_new_instance(name);
    name_instance(act.start, name);
    auto& own = act.start.request.unshare;
    if (!own.pid && !act.given.contains("no-pid"))
        own.pid = sandbox::may_have_own_processes({caller.uid, caller.uid, caller.gid, caller.gid});
    InstanceRecord out;
    out.name = name;
    out.home = act.start.home;
    const std::string& image = act.words.image;
    out.image = apptainer::is_file(image) ? plan::normalised(path_from(caller.cwd, image)) : image;
    std::tie(out.out, out.err) = instance_logs(caller, environment, name);
    return out;
}

int run_in_background(RunOptions& options, const std::string& pid_file, InstanceRecord& record,
                      const ApptainerSettings& settings) {
    options.instance = &record;
    if (int code = run_new(options); code != 0) return code;
    tell_info(settings,
              cat("instance output is in ", printable(record.out, 4096), " and ", printable(record.err, 4096)));
    tell_info(settings, "instance started successfully");
    if (!pid_file.empty()) write_pid_file(pid_file, record, settings);
    return 0;
}

/// What a command in an instance may have of its own.
constexpr const char* of_command[] = {"env", "env-file", "cleanenv", "no-env", "no-eval", "cwd", "pwd", "shell", "app",
                                      "no-umask"};

/// An instance is as it was started.
void keep_command_flags(Given& given, const ApptainerSettings& settings) {
    if (given.contains("containall") || given.contains("compat")) given["cleanenv"] = {""};
    std::erase_if(given, [&](const auto& one) {
        if (std::ranges::find(of_command, one.first) != std::end(of_command)) return false;
        tell_info(settings, cat("--", one.first, " ignored when joining instance"));
        return true;
    });
}

int act_in_instance(Act& act, const std::string& name, const ApptainerSettings& settings) {
    std::vector<std::string> environment = environment_of_this_process();
    plan::Caller caller = caller_of_this_process();
    keep_command_flags(act.given, settings);
    Given all = act.given;
    apptainer::add_variables(all, environment);
    for (const char* word : of_command)
        if (auto found = all.find(word); found != all.end()) act.given[word] = found->second;
    InstanceRecord record = instance_named(name);
    take_start(act, record.image, caller, environment);
    tell_warnings(act, settings);
    name_instance(act.start, name);
    std::erase_if(act.start.set, [](const std::string& text) { return text.starts_with("HOME="); });
    act.start.set.push_back("HOME=" + record.home);
    RunOptions options = options_of(act.start, act.given, act.variables, settings);
    options.command = command_for(act.action, std::move(act.words.rest), act.given, act.start.app, settings);
    if (act.start.plain_umask) ::umask(022);
    return run_in_instance(options, record);
}

int act_in_new(Act& act, const ApptainerSettings& settings, bool in_background) {
    std::vector<std::string> environment = environment_of_this_process();
    apptainer::add_variables(act.given, environment);
    plan::Caller caller = caller_of_this_process();
    take_start(act, act.words.image, caller, environment);
    if (!apptainer::is_file(act.words.image)) tell_of_places(environment, act.given.contains("tmpdir"), settings);
    tell_warnings(act, settings);
    take_unasked(act.start, caller, settings);
    take_other_workdir(act.start);
    InstanceRecord record;
    if (in_background) record = instance_for(act, caller, environment);
    const std::string& app = act.start.app;
    RunOptions options = options_of(act.start, act.given, act.variables, settings);
    if (act.action == Action::start) options.start_script = apptainer::start_script(app);
    if (!in_background) options.step = step_for(act.start, environment);
    options.command = command_for(act.action, std::move(act.words.rest), act.given, app, settings);
    if (act.action == Action::run && app.empty()) take_mounted_runscript(act.start, options);
    options.request.image = plan::parse_reference(opened_as(act.start.image, settings));
    make_folders(act.start);
    if (act.start.plain_umask) ::umask(022);
    return in_background ? run_in_background(options, act.words.pid_file, record, settings) : run_new(options);
}

int act(Action action, int argc, char** argv, const ApptainerSettings& settings, bool in_background = false) {
    CommandLine line(about(action, in_background),
                     cat("apptainer ", in_background ? "instance " : "", word_of(action)));
    std::deque<Slot> slots = declare(line, action);
    Act act{.action = action, .words = {}, .given = {}};
    declare_words(line, act.words, in_background);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    // As any other mistake on the command line.
    if (action == Action::exec && act.words.rest.empty())
        return tell_fatal(Error("apptainer exec IMAGE COMMAND: the command is missing")), 1;
    act.given = given_on(slots);
    std::string instance = in_background ? "" : apptainer::instance_of(act.words.image);
    return instance.empty() ? act_in_new(act, settings, in_background) : act_in_instance(act, instance, settings);
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
int apptainer_instance_start(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::start, argc, argv, settings, true);
}
int apptainer_instance_run(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::run, argc, argv, settings, true);
}
int apptainer_test(int argc, char** argv, const ApptainerSettings& settings) {
    return act(Action::test, argc, argv, settings);
}

}  // namespace berth::cli
