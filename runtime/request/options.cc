#include "runtime/request/options.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/values.hh"

namespace berth::plan {

namespace {

/// NS[,NS...] of --container-unshare.
OwnNamespaces parse_unshare(std::string_view text) {
    OwnNamespaces out;
    size_t position = 0;
    for (const std::string& word : split(text, ',')) {
        if (word == "net")
            out.net = true;
        else if (word == "ipc")
            out.ipc = true;
        else if (word == "uts")
            out.uts = true;
        else
            throw Error(with_caret(cat("unknown namespace '", printable(word),
                                       "'; there are net, ipc and uts, with commas between them"),
                                   text, position));
        position += word.size() + 1;
    }
    return out;
}

void set_image(Request& request, std::string_view value) {
    refuse_variables_in_image(value);
    request.image = parse_reference(value);
}

void take_mounts(Request& request, std::string_view value) {
    for (MountRequest& mount : parse_mounts(value)) request.mounts.push_back(std::move(mount));
    request.mount_texts.emplace_back(value);
}

void add_mounts(Request& request, std::string_view value) {
    refuse_variables(value);
    take_mounts(request, value);
}

void add_env(Request& request, std::string_view value) {
    for (std::string& name : parse_env_names(value)) request.env.push_back(std::move(name));
}

/// For a member whose grammar makes the whole of it.
template <auto Member, auto Parse>
void parsed(Request& request, std::string_view value) {
    request.*Member = Parse(value);
}

template <auto Member>
void chosen(Request& request, bool yes) {
    request.*Member = yes;
}

template <auto Member>
constexpr RecordedOption recorded_choice(const char* key) {
    return {.key = key,
            .reader = RecordedOption::Reader::exec_and_run,
            .texts = [](const Request& request) {
                std::vector<std::string> out;
                if (request.*Member) out.emplace_back(*(request.*Member) ? "true" : "false");
                return out;
            },
            .add_text = [](Request& request, const std::string& text, const std::string& setting) {
                request.*Member = parse_bool(text, setting);
                return true;
            }};
}

/// Another version may know mounts that this one does not.
bool add_recorded_mounts(Request& request, const std::string& text, const std::string&) {
    try {
        take_mounts(request, text);
        return true;
    } catch (const Error&) {
        return false;
    }
}

constexpr RecordedOption recorded_mounts{.key = "mount",
                                         .texts = [](const Request& request) { return request.mount_texts; },
                                         .add_text = add_recorded_mounts};

constexpr RecordedOption recorded_namespaces{
    .key = "unshare",
    .texts = [](const Request& request) {
        std::vector<std::string> out;
        for (const NamespaceKind& kind : namespace_kinds)
            if (request.unshare.*kind.wanted) out.emplace_back(kind.word);
        return out;
    },
    .add_text = [](Request& request, const std::string& text, const std::string&) {
        for (const NamespaceKind& kind : namespace_kinds)
            if (text == kind.word) return request.unshare.*kind.wanted = true;
        return false;
    }};

constexpr RunOption::Word namespace_words[] = {
    {"ipc", "own shared memory and message queues"},
    {"net", "a network of its own, with nothing but loopback"},
    {"uts", "a host name of its own"},
    {"pid", "processes of its own: it sees and signals no others, and all end with it"},
    {"cgroup", "cgroups seen from its own on"}};
static_assert(std::size(namespace_words) == std::size(namespace_kinds));

constexpr Option table[] = {
    {.name = "container-image",
     .argument = "[USER@][REGISTRY/]IMAGE[:TAG][@DIGEST]|PATH",
     .usage = "run in a container of this image; a path starts with . or /",
     .set = set_image},
    {.name = "container-environment",
     .argument = "NAME|FILE",
     .usage = "take image, mounts, variables and more from this environment file; options win over it",
     .set = parsed<&Request::environment, parse_environment_name>,
     .run = {.names = "--environment",
             .help = "NAME|FILE: take image, mounts, variables and more from this environment file; options win over "
                     "it",
             .completion = Completion::environments}},
    {.name = "container-mounts",
     .argument = "SRC[:DST[:FLAG+FLAG]][,...]",
     .usage = "mount files of the node in the container; flags: ro rw exec noexec bind rbind squashfs",
     .set = add_mounts,
     .run = {.names = "--mount",
             .help = "SRC[:DST[:FLAG+FLAG]][,...]: mount host paths, squashfs files, tmpfs, or umount a default mount",
             .repeats = true,
             .completion = Completion::files},
     .record = recorded_mounts},
    {.name = mount_option,
     .argument = "SRC[:DST[:FLAG+FLAG]]",
     .usage = "the same for one mount; may be given several times, and adds to --container-mounts",
     .set = add_mounts,
     .adds = true},
    {.name = "container-workdir",
     .argument = "PATH",
     .usage = "working directory in the container",
     .set = parsed<&Request::workdir, parse_workdir>,
     .run = {.names = "-w,--workdir",
             .help = "working directory in the container",
             .completion = Completion::files,
             .of_exec = true}},
    {.name = "container-env",
     .argument = "NAME[,NAME...]",
     .usage = "variables for which the job's value overrides the image's",
     .set = add_env,
     .run = {.names = "-e,--env",
             .help = "NAME: keep the value that is set outside; NAME=VALUE: set it",
             .repeats = true,
             .completion = Completion::variables,
             .of_exec = true}},
    {.name = "container-name",
     .argument = "NAME[:auto|create|exec|no_exec]",
     .usage = "keep the container on the node under this name, or use the existing one",
     .set = parsed<&Request::name, parse_container_name>,
     .run = {.names = "--name",
             .help = "NAME[:auto|create|exec|no_exec]: named container, which keeps its files",
             .completion = Completion::containers}},
    {.name = "container-save",
     .argument = "PATH",
     .usage = "write the container as one squashfs file after the last task",
     .set = parsed<&Request::save, parse_save_path>,
     .run = {.names = "--save",
             .help = "FILE: when the command ends with 0, write the container as one squashfs file, replacing another "
                     "one",
             .completion = Completion::files}},
    {.name = "container-mount-home",
     .usage = "mount the home directory",
     .opposite = "no-container-mount-home",
     .opposite_usage = "do not mount the home directory",
     .choose = chosen<&Request::mount_home>,
     .run = {.names = "--mount-home",
             .help = "mount the home directory",
             .opposite_names = "--no-mount-home",
             .opposite_help = "do not"},
     .record = recorded_choice<&Request::mount_home>("mount-home")},
    {.name = "container-remap-root",
     .usage = "run as root in the container",
     .opposite = "no-container-remap-root",
     .opposite_usage = "keep the user's own uid in the container",
     .choose = chosen<&Request::remap_root>,
     .run = {.names = "--root",
             .help = "be root in the container",
             .opposite_names = "--no-root",
             .opposite_help = "do not"},
     .record = recorded_choice<&Request::remap_root>("remap-root")},
    {.name = "container-entrypoint",
     .usage = "run the image's entrypoint before the tasks",
     .opposite = "no-container-entrypoint",
     .opposite_usage = "do not run the image's entrypoint",
     .choose = chosen<&Request::entrypoint>,
     .run = {.names = "--entrypoint",
             .help = "run the image's entrypoint, with the command as its arguments",
             .opposite_names = "--no-entrypoint",
             .opposite_help = "do not run the entrypoint, even without a command"}},
    {.name = "container-entrypoint-log",
     .usage = "show what the entrypoint prints",
     .choose = chosen<&Request::entrypoint_log>},
    {.name = "container-writable",
     .usage = "let the container's file system be written to; what is written goes with an unnamed container",
     .opposite = "container-readonly",
     .opposite_usage = "make the container's file system read-only",
     .choose = chosen<&Request::writable>,
     .run = {.names = "--rw",
             .help = "writable root file system: in memory, or on disk with --name",
             .opposite_names = "--ro,--read-only",
             .opposite_help = "read-only root file system"},
     .record = recorded_choice<&Request::writable>("writable")},
    {.name = "container-nested",
     .usage = "let programs of the container make containers and sandboxes: bwrap, podman, buildah, Chromium",
     .opposite = "no-container-nested",
     .opposite_usage = "do not let programs of the container make containers and sandboxes",
     .choose = chosen<&Request::nested>,
     .run = {.names = "--nested",
             .help = "let programs of the container make containers and sandboxes: bwrap, podman, buildah, Chromium",
             .opposite_names = "--no-nested",
             .opposite_help = "do not"},
     .record = recorded_choice<&Request::nested>("nested")},
    {.name = "container-unshare",
     .argument = "net,ipc,uts",
     .usage = "give the container its own namespaces",
     .set = parsed<&Request::unshare, parse_unshare>,
     .run = {.words = namespace_words},
     .record = recorded_namespaces},
};

/// The grammars do not name the option, which has another name for `berth run`.
void apply(Request& request, std::string_view name, std::string_view value) {
    const SrunOption* option = srun_option(name);
    if (option == nullptr) throw Error(cat("--", printable(name), " is no option of berth"));
    try {
        if (option->option->choose != nullptr)
            option->option->choose(request, option->yes);
        else
            option->option->set(request, value);
    } catch (const Error& error) {
        throw Error(cat("--", name, ": ", error.what()), error.exit_code());
    }
}

void insert_in_order(GivenOptions& options, std::string_view name, std::string_view value) {
    auto position = [](std::string_view wanted) {
        const auto& all = srun_options();
        return std::find_if(all.begin(), all.end(), [&](const SrunOption& option) { return wanted == option.name; }) -
               all.begin();
    };
    auto after = std::find_if(options.begin(), options.end(),
                              [&](const auto& option) { return position(option.first) > position(name); });
    options.insert(after, {std::string(name), std::string(value)});
}

/// Each asks for a container.
constexpr std::string_view asking_options[] = {"container-image", "container-name", "container-environment"};

const char* opposite_of(std::string_view name) {
    const SrunOption* option = srun_option(name);
    return option != nullptr ? option->opposite : nullptr;
}

}  // namespace

std::span<const Option> option_table() { return table; }

const std::vector<SrunOption>& srun_options() {
    static const std::vector<SrunOption> all = [] {
        std::vector<SrunOption> out;
        for (const Option& option : table) {
            out.push_back({.name = option.name,
                           .argument = option.argument,
                           .usage = option.usage,
                           .opposite = option.opposite,
                           .option = &option,
                           .yes = true});
            if (option.opposite != nullptr)
                out.push_back({.name = option.opposite,
                               .argument = nullptr,
                               .usage = option.opposite_usage,
                               .opposite = option.name,
                               .option = &option,
                               .yes = false});
        }
        return out;
    }();
    return all;
}

const SrunOption* srun_option(std::string_view name) {
    for (const SrunOption& option : srun_options())
        if (name == option.name) return &option;
    return nullptr;
}

const std::string* given(const GivenOptions& options, std::string_view name) {
    for (const auto& [option, value] : options)
        if (option == name) return &value;
    return nullptr;
}

bool is_none(std::string_view name, std::string_view value) {
    return value.empty() &&
           std::find(std::begin(asking_options), std::end(asking_options), name) != std::end(asking_options);
}

void check_option(std::string_view name, std::string_view value) {
    if (is_none(name, value)) return;
    Request scratch;
    apply(scratch, name, value);
}

void add_option(GivenOptions& options, std::string_view name, std::string_view value) {
    if (const std::string* before = given(options, name)) {
        if (*before == value) return;
        throw Error(cat("--", printable(name), " is given twice, as ", printable(*before, 4096), " and as ",
                        printable(value, 4096)));
    }
    if (const char* opposite = opposite_of(name); opposite != nullptr && given(options, opposite) != nullptr)
        throw Error(cat("--", opposite, " and --", printable(name), " contradict each other"));
    insert_in_order(options, name, value);
}

void add_option_if_new(GivenOptions& options, std::string_view name, std::string_view value) {
    const char* opposite = opposite_of(name);
    if (given(options, name) != nullptr || (opposite != nullptr && given(options, opposite) != nullptr)) return;
    insert_in_order(options, name, value);
}

void remove_option(GivenOptions& options, std::string_view name) {
    std::erase_if(options, [&](const auto& option) { return option.first == name; });
}

bool asks_for_container(const GivenOptions& options) {
    return std::any_of(std::begin(asking_options), std::end(asking_options), [&](std::string_view name) {
        const std::string* value = given(options, name);
        return value != nullptr && !value->empty();
    });
}

std::string ignored_note(const GivenOptions& options) {
    if (options.empty() || asks_for_container(options)) return {};
    // Who asks for none knows that the options of a surrounding job go with it.
    for (std::string_view name : asking_options)
        if (given(options, name) != nullptr) return {};
    std::string names;
    for (const auto& [name, value] : options) names += cat(names.empty() ? "" : ", ", "--", name);
    return cat("ignoring ", names,
               ": there is none of --container-image, --container-name and --container-environment");
}

Request request_of(const GivenOptions& options) {
    Request request;
    for (const auto& [name, value] : options)
        if (!is_none(name, value)) apply(request, name, value);
    return request;
}

}  // namespace berth::plan
