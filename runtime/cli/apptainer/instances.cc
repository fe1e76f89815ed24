#include "runtime/cli/apptainer/instances.hh"

#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>

#include "runtime/apptainer/instance_list.hh"
#include "runtime/apptainer/instance_use.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/memory_room.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/facts.hh"
#include "runtime/plan/plan.hh"

namespace berth::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int look_ms = 10;
constexpr int default_patience = 10;

std::optional<std::string> text_or_nothing(const std::string& path) try {
    return sys::read_file(path);
} catch (const Error&) {
    return std::nullopt;
}

ContainerFolder instances_of_caller() {
    return open_container_folder(site_of_caller(), caller_of_this_process(), instance_scope);
}

/// Those whose names the pattern means.
std::vector<InstanceRecord> matching(const ContainerFolder& folder, const std::string& pattern) {
    std::vector<InstanceRecord> out = all_instances(folder);
    std::erase_if(out, [&](const InstanceRecord& one) { return ::fnmatch(pattern.c_str(), one.name.c_str(), 0) != 0; });
    return out;
}

void declare_user(CommandLine& line, std::string& user) {
    line.option("-u,--user", user, "refused: instances are their owner's").hidden();
}

void refuse_user(const std::string& user, const char* word) {
    if (user.empty()) return;
    if (::getuid() != 0) throw Error(cat("Only root user can ", word, " user's instances"));
    throw Error(cat("--user ", printable(user),
                    ": instances are in folders of their owner's alone; become that user, "
                    "by su or sudo -u"));
}

int list(int argc, char** argv, const ApptainerSettings&) {
    CommandLine line("List the instances that run on this node.", "apptainer instance list");
    std::string pattern = "*", user;
    bool json = false, logs = false, all = false;
    line.flag("-j,--json", json, "print JSON");
    line.flag("-l,--logs", logs, "the files that they print to");
    line.flag("-a,--all", all, "accepted: all are listed in any case").hidden();
    declare_user(line, user);
    line.argument("PATTERN", pattern, "of names, as of files; all without it");
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    refuse_user(user, "list");
    if (json && logs) throw Error("more than one flags have been set: --json and --logs");
    std::vector<apptainer::ListedInstance> listed;
    for (const InstanceRecord& one : matching(instances_of_caller(), pattern))
        listed.push_back({one.name, one.image, one.out, one.err, one.keeper});
    std::string text = json ? apptainer::instance_json(listed) : apptainer::instance_table(listed, logs);
    std::fputs(text.c_str(), stdout);
    return 0;
}

/// An instance, as its helper knows it.
class Running {
  public:
    Running(const ContainerFolder& folder, InstanceRecord record) : folder_(folder), record_(std::move(record)) {
        Fd connection = folder.connect(record_.name);
        auto info = connection ? ask_for_status(connection.get()) : std::nullopt;
        if (!info) return;
        user_namespace_ = info->user_namespace;
        connection_ = folder.connect(record_.name);
        helper_ = helper_at(connection_);
    }

    const InstanceRecord& record() const { return record_; }
    bool is_over() const { return !connection_; }
    std::vector<pid_t> processes() const {
        return is_over() ? std::vector<pid_t>() : processes_of_instance(record_, user_namespace_, helper_);
    }
    void signal(int number) const { send_to(processes(), number); }
    /// With all that still runs in it.
    void end() {
        if (connection_) ask_to_stop(std::move(connection_));
        connection_.reset();
        forget_instance(folder_, record_.name);
    }

  private:
    const ContainerFolder& folder_;
    InstanceRecord record_;
    Fd connection_;  ///< to its helper; empty: it has gone
    ino_t user_namespace_ = 0;
    pid_t helper_ = 0;
};

std::string shown(const InstanceRecord& one) {
    return cat(one.name, " instance of ", printable(one.image, 4096), " (PID=", one.keeper, ")");
}

/// Ends those whose processes have ended, until none is left or the time is over. What a signal leaves alone is killed.
void stop_all(std::vector<Running>& all, int signal, int seconds, const ApptainerSettings& settings) {
    for (Running& one : all) {
        tell_info(settings, "Stopping " + shown(one.record()));
        if (signal != SIGKILL) one.signal(signal);
    }
    Clock::time_point until = Clock::now() + std::chrono::seconds(seconds);
    for (bool waits = signal != SIGKILL; waits;) {
        waits = false;
        for (Running& one : all) {
            if (one.is_over()) continue;
            one.processes().empty() ? one.end() : (void)(waits = true);
        }
        if (Clock::now() >= until) break;
        if (waits) ::poll(nullptr, 0, look_ms);
    }
    for (Running& one : all) {
        if (one.is_over()) continue;
        if (signal != SIGKILL) tell_info(settings, cat("Killing ", shown(one.record()), " (Timeout)"));
        one.end();
    }
}

int stop(int argc, char** argv, const ApptainerSettings& settings) {
    CommandLine line("End instances.", "apptainer instance stop");
    std::string pattern, user, word;
    bool all = false, force = false;
    int seconds = default_patience;
    line.flag("-a,--all", all, "all of them");
    line.flag("-F,--force", force, "kill at once");
    line.option("-s,--signal", word, "sent to their processes; SIGINT");
    line.option("-t,--timeout", seconds, "seconds after which what is left is killed; 10");
    declare_user(line, user);
    line.argument("PATTERN", pattern, "of names, as of files");
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    refuse_user(user, "stop");
    if (pattern.empty() && !all)
        return tell_fatal(Error("apptainer instance stop: write the instance's name, or --all")), 1;
    int signal = force ? SIGKILL : word.empty() ? SIGINT : apptainer::signal_of(word);
    ContainerFolder folder = instances_of_caller();
    std::vector<Running> found;
    for (InstanceRecord& one : matching(folder, pattern.empty() ? "*" : pattern))
        found.emplace_back(folder, std::move(one));
    if (found.empty()) return tell_fatal(Error("no instance found")), 1;
    stop_all(found, signal, seconds, settings);
    return 0;
}

/// What the instance uses now; nothing when it has ended.
std::optional<apptainer::InstanceUse> use_of(const Running& instance, const InstanceRecord& record) {
    if (::kill(record.keeper, 0) != 0) return std::nullopt;
    apptainer::InstanceUse out;
    auto ticks = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)), page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    for (pid_t process : instance.processes()) {
        auto text = [&](const char* file) { return text_or_nothing(cat("/proc/", process, "/", file)).value_or(""); };
        out.add(text("stat"), text("smaps_rollup"), text("statm"), text("io"), ticks, page);
    }
    struct sysinfo node {};
    ::sysinfo(&node);
    MemoryRoom room = memory_room(text_or_nothing("/proc/self/cgroup").value_or(""), text_or_nothing);
    out.limit = room.limit.value_or(uint64_t{node.totalram} * node.mem_unit);
    out.time = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
    return out;
}

int stats(int argc, char** argv, const ApptainerSettings& settings) {
    constexpr int between_ms = 1000;
    CommandLine line("Print what an instance uses.", "apptainer instance stats");
    std::string name, user;
    bool json = false, once = false;
    line.flag("-j,--json", json, "print JSON, once");
    line.flag("--no-stream", once, "print once");
    declare_user(line, user);
    line.argument("NAME", name, "of the instance").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    refuse_user(user, "look at stats of");
    ContainerFolder folder = instances_of_caller();
    std::vector<InstanceRecord> found = matching(folder, name);
    if (found.empty()) return tell_fatal(Error("no instance found")), 1;
    if (found.size() > 1)
        return tell_fatal(Error(cat("query returned more than one instance (", found.size(), "); write one name"))), 1;
    const InstanceRecord& record = found[0];
    Running instance(folder, record);
    auto before = use_of(instance, record);
    if (json && before) std::fputs(apptainer::use_json(*before).c_str(), stdout);
    if (json || !before) return 0;
    tell_info(settings, "Stats for " + shown(record));
    for (;;) {
        ::poll(nullptr, 0, between_ms);
        auto now = use_of(instance, record);
        if (!now) return 0;
        constexpr const char* clear_screen = "\033[2J\033[1;1H";
        std::printf("%s%s", once ? "" : clear_screen, apptainer::use_table(record.name, *before, *now).c_str());
        std::fflush(stdout);
        if (once) return 0;
        before = now;
    }
}

std::vector<std::string> command_in(const RunOptions& options, const InstanceRecord& record) {
    std::vector<std::string> out;
    if (options.request.entrypoint.value_or(false)) out = record.entrypoint;
    const std::vector<std::string>& rest = options.command.empty() ? record.cmd : options.command;
    out.insert(out.end(), rest.begin(), rest.end());
    out = wrapped(std::move(out), options);
    if (record.has_scripts || options.needs_script_reader)
        out.insert(out.begin(), options.script_reader.begin(), options.script_reader.end());
    return out;
}

}  // namespace

InstanceRecord instance_named(const std::string& name) {
    if (auto record = find_instance(instances_of_caller(), name)) return *record;
    throw Error(cat("no instance found with name ", name));
}

void check_new_instance(const std::string& name) {
    if (find_instance(instances_of_caller(), name)) throw Error(cat("instance ", name, " already exists"));
}

std::pair<std::string, std::string> instance_logs(const plan::Caller& caller,
                                                  const std::vector<std::string>& environment,
                                                  const std::string& name) {
    std::string folder = value_in(environment, "APPTAINER_CONFIGDIR");
    if (folder.empty()) folder = value_in(environment, "SINGULARITY_CONFIGDIR");
    if (folder.empty()) folder = caller.home + "/.apptainer";
    char host[HOST_NAME_MAX + 1] = "";
    ::gethostname(host, sizeof host - 1);
    folder = path_from(caller.cwd,
                       cat(folder, "/instances/logs/", host, "/", caller.user.empty() ? cat(caller.uid) : caller.user));
    sys::make_directories(folder, 0700);
    return {cat(folder, "/", name, ".out"), cat(folder, "/", name, ".err")};
}

void write_pid_file(const std::string& path, const InstanceRecord& record, const ApptainerSettings& settings) {
    Fd file = sys::try_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    try {
        if (!file) throw SysError(cat("opening ", printable(path, 4096)));
        sys::write_all(file.get(), cat(record.keeper, "\n"), printable(path, 4096));
    } catch (const SysError& error) {
        tell_warning(settings, cat("Failed to write pid file: ", error.what()));
    }
}

int run_in_instance(const RunOptions& options, const InstanceRecord& record) {
    InheritedDescriptors inherited(pmi_descriptor());
    std::vector<std::string> environment = environment_for(options);
    bool in_job = is_in_job(environment);
    keep_what_reaches(environment, options);
    Fd connection = instances_of_caller().connect(record.name);
    sigset_t watched = forwarded_signals();
    auto joined = connection ? ask_to_join(connection.get(), environment) : std::nullopt;
    if (!joined) throw Error(cat("no instance found with name ", record.name));
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    const plan::Request& request = options.request;
    std::vector<std::string> command = command_in(options, record);
    bool by_shell = record.has_scripts || options.needs_script_reader;
    auto changes = changes_but(request.env, joined->environment, environment);
    if (!by_shell) changes = plan::with_user_variables(std::move(changes), request.variables, request.env, environment);
    joined->container.workdir = request.workdir.value_or(record.home);
    if (options.workdir_may_miss) joined->container.other_workdirs = {record.home, "/"};
    plan::set_working_directory(changes, joined->container.workdir, request);
    environment = changed_environment(environment, changes);
    if (in_job) environment = with_visible_devices(environment, joined->devices);
    Task task = start_task(joined->container, command, environment, options.terminal, options.complain);
    int code = attend_task(task, watched, connection.get());
    leave(std::move(connection));
    return code;
}

int apptainer_instance(int argc, char** argv, const ApptainerSettings& settings) {
    struct Entry {
        const char* word;
        ApptainerCommand* run;
    };
    static constexpr Entry commands[] = {{"start", apptainer_instance_start},
                                         {"run", apptainer_instance_run},
                                         {"list", list},
                                         {"stop", stop},
                                         {"stats", stats}};
    std::string word = argc > 1 ? argv[1] : "";
    for (const Entry& entry : commands)
        if (word == entry.word) return entry.run(argc - 1, argv + 1, settings);
    throw Error("apptainer instance: write start, run, list, stop or stats");
}

}  // namespace berth::cli
