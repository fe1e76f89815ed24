#include "runtime/cli/run_options.hh"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <string_view>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/environments.hh"
#include "runtime/host/facts.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/names.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/values.hh"

namespace berth::cli {

namespace {

/// An option of the table on a command line, and what was given.
class TableOption {
  public:
    explicit TableOption(const plan::Option& option) : option_(option), words_(option.run.words.size()) {}

    void declare(CommandLine& line) {
        const plan::RunOption& run = option_.run;
        for (size_t at = 0; at < run.words.size(); ++at)
            line.flag(cat("--", run.words[at].word), words_[at].given, run.words[at].help);
        if (run.names == nullptr) return;
        if (option_.choose != nullptr) {
            auto yes = line.flag(run.names, yes_, run.help);
            if (run.opposite_names != nullptr) line.flag(run.opposite_names, no_, run.opposite_help).excludes(yes);
        } else if (run.repeats) {
            line.option(run.names, texts_, run.help).completed_by(run.completion);
        } else {
            line.option(run.names, text_, run.help).completed_by(run.completion);
        }
    }

    void take(RunOptions& options) const try {
        plan::Request& request = options.request;
        if (yes_ || no_) option_.choose(request, yes_);
        for (size_t at = 0; at < words_.size(); ++at)
            if (words_[at].given) option_.record.add_text(request, option_.run.words[at].word, {});
        if (!text_.empty()) option_.set(request, text_);
        // A value of --env may set a variable as well, which srun leaves to --export.
        if (option_.name == std::string_view("container-env")) return take_environment(texts_, options);
        for (const std::string& text : texts_) option_.set(request, text);
    } catch (const Error& error) {
        std::string names = option_.run.names != nullptr ? option_.run.names : option_.name;
        throw Error(cat(names.substr(names.rfind(',') + 1), ": ", error.what()), error.exit_code());
    }

  private:
    struct Flag {
        bool given = false;
    };

    const plan::Option& option_;
    bool yes_ = false, no_ = false;
    std::string text_;
    std::vector<std::string> texts_;
    std::vector<Flag> words_;
};

/// Those of the table that `berth run`, or also `berth exec`, has.
std::list<TableOption> declare_table(CommandLine& line, bool of_exec) {
    std::list<TableOption> out;
    for (const plan::Option& option : plan::option_table())
        if (!of_exec || option.run.of_exec) out.emplace_back(option).declare(line);
    return out;
}

void declare_terminal(CommandLine& line, RunOptions& options, bool& interactive) {
    line.flag("-i,--interactive", interactive,
              "accepted for podman's users: the command has the standard input in any case");
    line.flag("-t,--tty", options.terminal,
              "give the command a terminal of the container (as docker -it); not needed for interactive "
              "work: without it the command has the caller's terminal itself");
}

/// The image of `-v SOURCE:TARGET`, where -v is another option here.
void refuse_volume(const std::string& image) {
    bool is_path =
        image.starts_with('/') || image.starts_with("./") || image.starts_with("../") || image.starts_with('~');
    size_t colon = image.find(":/");
    if (is_path && colon != std::string::npos)
        throw Error(cat(printable(image, 4096), " is no image: for a mount write --mount ", printable(image, 4096),
                        "; -v is --verbose"));
}

/// Where the environment names the image, `word`, which stands in its place, is the command.
void take_environment_file(RunOptions& options, std::string& word) {
    plan::Request& request = options.request;
    if (request.environment.empty()) return;
    plan::ResolvedEnvironment found = read_environment(request.environment, site_of_caller(), caller_of_this_process(),
                                                       environment_of_this_process());
    for (const std::string& note : found.notes) std::fprintf(stderr, "berth: %s\n", note.c_str());
    if (plan::given(found.definition.options, "container-image") != nullptr && !word.empty())
        options.command.insert(options.command.begin(), std::exchange(word, {}));
    // The first word may have been meant as the command.
    options.environment_without_image = plan::given(found.definition.options, "container-image") == nullptr;
    plan::complete(request, found.definition);
}

/// What no shell has expanded, as a step does.
void expand_values(plan::Request& request) {
    plan::Signs signs = plan::signs_in(environment_of_this_process());
    plan::Caller caller = caller_of_this_process();
    if (signs.home.empty()) signs.home = caller.home;
    signs.user = caller.user.empty() ? std::to_string(caller.uid) : caller.user;
    if (request.image) request.image = plan::image_with_home(*request.image, signs.home);
    for (plan::MountRequest& mount : request.mounts) mount.source = plan::with_home(mount.source, signs.home);
    if (!request.save.empty()) request.save = plan::expanded_save_path(request.save, signs);
    if (!request.name) return;
    request.name->name = plan::with_signs(request.name->name, signs);
    plan::check_container_name(request.name->name);
}

/// The longest of "-w,--workdir".
std::string long_name(const char* names) {
    std::string all = names;
    return all.substr(all.rfind(',') + 1);
}

/// What people write who know srun's options, or docker's and podman's.
std::string advice_for(const std::string& option) {
    std::string name = option.substr(option.find_first_not_of('-'));
    bool is_opposite = name.starts_with("no-");
    for (const plan::SrunOption& known : plan::srun_options()) {
        if (name != known.name) continue;
        const plan::RunOption& run = known.option->run;
        if (name == "container-image") return "write the image as a word of its own";
        if (known.option->adds) return "write --mount";
        if (run.names == nullptr)
            return run.words.empty() ? "" : cat("write --", run.words.front().word, " and its like");
        return cat("write ", long_name(!known.yes && run.opposite_names ? run.opposite_names : run.names));
    }
    static const std::map<std::string_view, std::string_view> others = {
        {"volume", "for a mount write --mount SOURCE:TARGET"},
        {"gpus",
         "a container has the GPUs of its job; for an image that asks for none write -e NVIDIA_VISIBLE_DEVICES=all"},
        {"device", "a container has the devices of its job, and others by -e BERTH_DEVICES=vendor.com/class=name"},
        {"user", "the command runs as you; --root shows you as root"},
        {"u", "the command runs as you; --root shows you as root"},
        {"net", "a container has the network of the node"},
        {"network", "a container has the network of the node"},
        {"p", "a container has the network of the node, so that its ports are the node's"},
        {"publish", "a container has the network of the node, so that its ports are the node's"},
        {"d", "a container ends with its command; start it in a job, or by nohup"},
        {"detach", "a container ends with its command; start it in a job, or by nohup"},
        {"bind", "for a mount write --mount SOURCE:TARGET"},
        {"B", "for a mount write --mount SOURCE:TARGET"},
        {"nv", "a container has the GPUs of its job without it"},
        {"shm-size", "/dev/shm is the node's"},
        {"env-file", "write -e NAME=VALUE for each, or --environment FILE"},
        {"pull", "berth pull --policy does that"}};
    auto found = others.find(name);
    return found == others.end() || is_opposite ? "" : std::string(found->second);
}

void take_image(RunOptions& options, const std::string& word) {
    if (word.empty()) return;
    try {
        options.request.image = plan::parse_reference(word);
    } catch (const Error& error) {
        rethrow_for_image(options, word, error);
    }
}

/// `image` is where the line puts the word for the image.
bool parse(CommandLine& line, const std::list<TableOption>& table, int argc, char** argv, RunOptions& options,
           std::string& image, int& code) {
    line.ends_with_command(options.command);
    line.advises(advice_for);
    if (auto done = line.parse(argc, argv)) {
        code = *done;
        return false;
    }
    for (const TableOption& option : table) option.take(options);
    take_environment_file(options, image);
    take_image(options, image);
    expand_values(options.request);
    return true;
}

}  // namespace

void rethrow_for_image(const RunOptions& options, const std::string& word, const Error& error) {
    // cppcheck-suppress rethrowNoCurrentException ; called while one is handled
    if (!options.environment_without_image) throw;
    throw Error(cat(error.what(), "; the environment ", printable(options.request.environment, 1024),
                    " names no image, so that the word ", printable(word, 1024), " is taken for it"),
                error.exit_code());
}

std::vector<std::string> command_of(const RunOptions& options, const plan::ImageConfig& image) {
    std::vector<std::string> out;
    if (options.request.entrypoint.value_or(options.command.empty())) out = image.entrypoint;
    const std::vector<std::string>& rest = options.command.empty() ? image.cmd : options.command;
    out.insert(out.end(), rest.begin(), rest.end());
    if (out.empty() && options.fallback.empty())
        throw Error(cat("running ", printable(options.request.image_text(), 4096),
                        ": the image names no command; write one after the image"),
                    exit_not_found);
    return wrapped(std::move(out), options);
}

std::vector<std::string> wrapped(std::vector<std::string> command, const RunOptions& options) {
    if (command.empty()) command = options.fallback;
    command.insert(command.begin(), options.wrapper.begin(), options.wrapper.end());
    return command;
}

namespace {

/// Removes what does not get in, unless it is asked for by its name.
void keep(std::vector<std::string>& environment, const RunOptions& options,
          const std::function<bool(const std::string& name)>& gets_in) {
    if (!gets_in) return;
    std::erase_if(environment, [&](const std::string& text) {
        std::string name = text.substr(0, text.find('='));
        const std::vector<std::string>& kept = options.request.env;
        return !gets_in(name) && std::find(kept.begin(), kept.end(), name) == kept.end();
    });
}

}  // namespace

bool is_in_job(const std::vector<std::string>& environment) {
    return std::any_of(environment.begin(), environment.end(),
                       [](const std::string& text) { return text.starts_with("SLURM_JOB_ID="); });
}

std::vector<std::string> with_visible_devices(const std::vector<std::string>& environment,
                                              const std::vector<plan::VisibleDevices>& devices) {
    std::vector<plan::EnvironmentChange> changes;
    auto all = [](const std::vector<plan::VisibleDevice>& some) { return std::vector<bool>(some.size(), true); };
    for (const auto& [name, value] : plan::visible_device_changes(devices, all, environment))
        changes.push_back({name, value});
    return changed_environment(environment, changes);
}

void keep_what_reaches(std::vector<std::string>& environment, const RunOptions& options) {
    keep(environment, options, options.reaches);
}

std::vector<std::string> environment_for(const RunOptions& options) {
    std::vector<plan::EnvironmentChange> changes;
    for (const std::string& text : options.set)
        changes.push_back({text.substr(0, text.find('=')), text.substr(text.find('=') + 1)});
    std::vector<std::string> out = environment_of_this_process();
    keep(out, options, options.passes);
    return plan::with_device_variables(changed_environment(std::move(out), changes), options.request);
}

void take_environment(const std::vector<std::string>& texts, RunOptions& options) {
    for (const std::string& text : texts) {
        size_t equals = text.find('=');
        std::vector<std::string> names = plan::parse_env_names(text.substr(0, equals));
        if (equals != std::string::npos && names.size() > 1)
            throw Error(cat(printable(text), ": a value is for one name; repeat the option"));
        options.request.env.insert(options.request.env.end(), names.begin(), names.end());
        if (equals != std::string::npos) options.set.push_back(text);
    }
}

bool parse_run_options(const std::string& word, int argc, char** argv, RunOptions& options, int& code) {
    CommandLine line(word == "run"       ? "Run a command in a container."
                     : word == "profile" ? "Run a command in a container, and keep in the store what it reads of the "
                                           "image: berth publish tells others."
                                         : "Print what `berth run` would do with the same options, and why.",
                     "berth " + word);
    bool interactive = false;
    std::list<TableOption> table = declare_table(line, false);
    declare_terminal(line, options, interactive);
    line.flag("-v,--verbose", options.verbose, "print the time of each phase");
    line.flag("-q,--quiet", options.quiet, "show no progress of a pull");
    bool removes = false;
    line.flag("--rm", removes, "accepted for podman's users: a container without a name leaves nothing in any case");
    std::string image;
    line.argument("image", image,
                  "REGISTRY/NAME:TAG, NAME@sha256:..., a path, oci:DIR, oci-archive:FILE, docker-archive:FILE, "
                  "dockerd://NAME, podman://NAME; left out where --environment has one");
    if (word == "plan") {
        auto json = line.flag("--json", options.json, "print it as JSON");
        line.flag("--cdi", options.cdi,
                  "print what hooks add as a CDI specification with the device nvidia.com/gpu=all")
            .excludes(json);
    }
    if (!parse(line, table, argc, argv, options, image, code)) return false;
    if (options.verbose) refuse_volume(options.request.image_text());
    if (options.request.image) return true;
    if (options.environment_without_image)
        throw Error(cat("the environment ", printable(options.request.environment, 1024),
                        ": it names no image; write one before the command, or image = \"...\" in the file"));
    code = line.missing("image");
    return false;
}

namespace {

/// The words of `berth exec`, before and after the "--" that begins the command where there is one.
struct ExecWords {
    std::string name, job;
    bool marked = false;
    std::vector<std::string> rest;  ///< after the mark
};

/// "--" stands for itself where it is a word of the command.
void append_rest(std::vector<std::string>& command, const ExecWords& words) {
    if (words.marked && !command.empty()) command.emplace_back("--");
    command.insert(command.end(), words.rest.begin(), words.rest.end());
}

void take_job(ExecWords& words, RunOptions& options, JobExec& where) {
    where.wanted = true;
    where.target = parse_job_target(words.job);
    bool has_terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
    where.terminal = !where.ssh_server && (options.terminal || has_terminal);
    if (!words.name.empty()) options.command.insert(options.command.begin(), words.name);
    append_rest(options.command, words);
}

void take_name(ExecWords& words, RunOptions& options) {
    if (words.name.empty()) {
        words.name = words.rest.front();
        words.rest.erase(words.rest.begin());
        words.marked = false;
        if (!words.rest.empty() && words.rest.front() == "--") words.rest.erase(words.rest.begin());
    }
    append_rest(options.command, words);
    plan::check_container_name(words.name);
    options.request.name = {words.name, plan::NameMode::automatic};
    uint64_t job = 0;
    if (!words.job.empty() && !parse_number(words.job, UINT32_MAX, job))
        throw Error(cat("--job ", printable(words.job), ": the containers that a job's steps share are by the job's "
                        "number; or write -- before a command for the job's own container"));
    options.job = static_cast<uint32_t>(job);
}

}  // namespace

bool parse_exec_options(int argc, char** argv, RunOptions& options, JobExec& where, int& code) {
    CommandLine line("Run a command in a named container, which is started if it does not run, or in the container of "
                     "a job's step.",
                     "berth exec");
    bool interactive = false;
    ExecWords words;
    std::list<TableOption> table = declare_table(line, true);
    declare_terminal(line, options, interactive);
    auto job =
        line.option("--job", words.job,
                    cat("JOB.STEP, or JOB alone or with -- before a command: in the container of this job's step, "
                        "from where srun can be run; JOB with a NAME: ",
                        job_help))
            .completed_by(Completion::jobs);
    auto node = line.option("--node", where.node, "on this node of the job; default: the first one").needs(job);
    auto server = line.flag("--ssh-server", where.ssh_server,
                            "for ssh's ProxyCommand: serve ssh on the standard streams; see berth ssh-config");
    server.needs(job);
    line.argument("name", words.name, "of the container; none for the container of a job's step");
    char** mark = std::find_if(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
    words.marked = mark != argv + argc;
    if (words.marked) words.rest.assign(mark + 1, argv + argc);
    std::string no_image;
    if (!parse(line, table, static_cast<int>(mark - argv), argv, options, no_image, code)) return false;
    // Also one that is empty, as a variable that is not set leaves it: another container would be meant.
    if (job.given()) (void)parse_job_target(words.job);
    bool of_step = words.job.find('.') != std::string::npos;
    bool of_job = !words.job.empty() && words.name.empty();
    if (of_step || of_job || node.given() || server.given()) {
        take_job(words, options, where);
        return true;
    }
    if (words.name.empty() && words.rest.empty()) {
        code = line.missing("name");
        return false;
    }
    take_name(words, options);
    return true;
}

}  // namespace berth::cli
