#include "runtime/request/options.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"
#include "runtime/request/reference.hh"

namespace berth::plan {

namespace {

const OptionInfo* info_of(std::string_view name) {
    for (const OptionInfo& option : option_table())
        if (name == option.name) return &option;
    return nullptr;
}

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
            throw Error(with_caret(cat("--container-unshare: unknown namespace '", printable(word),
                                       "'; there are net, ipc and uts, with commas between them"),
                                   text, position));
        position += word.size() + 1;
    }
    return out;
}

/// The request with one option applied; the only place that knows what each option means.
void apply(Request& request, std::string_view name, std::string_view value) {
    if (name == "container-image") {
        parse_reference(value);
        request.image = value;
    } else if (name == "container-mounts") {
        request.mounts = parse_mounts(value);
    } else if (name == "container-workdir") {
        request.workdir = parse_workdir(value);
    } else if (name == "container-env") {
        request.env = parse_env_names(value);
    } else if (name == "container-mount-home" || name == "no-container-mount-home") {
        request.mount_home = name[0] == 'c';
    } else if (name == "container-remap-root" || name == "no-container-remap-root") {
        request.remap_root = name[0] == 'c';
    } else if (name == "container-name") {
        request.name = parse_container_name(value);
    } else if (name == "container-save") {
        request.save = parse_save_path(value);
    } else if (name == "container-unshare") {
        request.unshare = parse_unshare(value);
    } else if (name == "container-entrypoint" || name == "no-container-entrypoint") {
        request.entrypoint = name[0] == 'c';
    } else if (name == "container-entrypoint-log") {
        request.entrypoint_log = true;
    } else if (name == "container-writable" || name == "container-readonly") {
        request.writable = name == "container-writable";
    } else {
        throw Error(cat("--", printable(name), " is no option of berth"));
    }
}

void insert_in_order(GivenOptions& options, std::string_view name, std::string_view value) {
    auto position = [](std::string_view wanted) {
        const auto& table = option_table();
        return std::find_if(table.begin(), table.end(),
                            [&](const OptionInfo& option) { return wanted == option.name; }) -
               table.begin();
    };
    auto after = std::find_if(options.begin(), options.end(),
                              [&](const auto& option) { return position(option.first) > position(name); });
    options.insert(after, {std::string(name), std::string(value)});
}

const char* opposite_of(std::string_view name) {
    const OptionInfo* info = info_of(name);
    return info != nullptr ? info->opposite : nullptr;
}

}  // namespace

const std::vector<OptionInfo>& option_table() {
    static const std::vector<OptionInfo> table = {
        {"container-image", "[USER@][REGISTRY/]IMAGE[:TAG][@DIGEST]|PATH",
         "run in a container of this image; a path starts with . or /", nullptr},
        {"container-mounts", "SRC[:DST[:FLAG+FLAG]][,...]",
         "make host files visible in the container; flags: ro rw exec noexec bind rbind", nullptr},
        {"container-workdir", "PATH", "working directory in the container", nullptr},
        {"container-env", "NAME[,NAME...]", "host environment variables that beat the image's", nullptr},
        {"container-name", "NAME[:auto|create|exec|no_exec]",
         "keep the container under this name, and use the one that has it", nullptr},
        {"container-save", "PATH", "write the container as one squashfs file after the last task", nullptr},
        {"container-unshare", "net,ipc,uts", "namespaces of the container's own", nullptr},
        {"container-mount-home", nullptr, "make the home directory visible in the container",
         "no-container-mount-home"},
        {"no-container-mount-home", nullptr, "keep the home directory out of the container", "container-mount-home"},
        {"container-remap-root", nullptr, "be root in the container", "no-container-remap-root"},
        {"no-container-remap-root", nullptr, "be oneself in the container", "container-remap-root"},
        {"container-entrypoint", nullptr, "run the image's entrypoint before the tasks", "no-container-entrypoint"},
        {"no-container-entrypoint", nullptr, "do not run the image's entrypoint", "container-entrypoint"},
        {"container-entrypoint-log", nullptr, "show what the entrypoint prints", nullptr},
        {"container-writable", nullptr,
         "let the container's file system be written to; what is written goes with an unnamed container",
         "container-readonly"},
        {"container-readonly", nullptr, "make the container's file system read-only", "container-writable"},
    };
    return table;
}

const std::string* given(const GivenOptions& options, std::string_view name) {
    for (const auto& [option, value] : options)
        if (option == name) return &value;
    return nullptr;
}

void check_option(std::string_view name, std::string_view value) {
    Request scratch;
    try {
        apply(scratch, name, value);
    } catch (const Error& error) {
        std::string_view line = error.what();
        // Some of the grammars belong to one option only and name it themselves.
        throw Error(line.starts_with("--") ? std::string(line) : cat("--", printable(name), ": ", line),
                    error.exit_code());
    }
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
    return given(options, "container-image") != nullptr || given(options, "container-name") != nullptr;
}

std::string ignored_note(const GivenOptions& options) {
    if (options.empty() || asks_for_container(options)) return {};
    std::string names;
    for (const auto& [name, value] : options) names += cat(names.empty() ? "" : ", ", "--", name);
    return cat("ignoring ", names, ": there is neither --container-image nor --container-name");
}

Request request_of(const GivenOptions& options) {
    Request request;
    for (const auto& [name, value] : options) {
        check_option(name, value);
        apply(request, name, value);
    }
    return request;
}

}  // namespace berth::plan
