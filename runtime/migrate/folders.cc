#include "runtime/migrate/folders.hh"

#include <algorithm>
#include <iterator>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/migrate/settings.hh"
#include "runtime/request/mounts.hh"

namespace berth::migrate {

namespace {

constexpr const char* mounts_key = "site.mounts";

constexpr Row variables[] = {{"MELLANOX_VISIBLE_DEVICES", set_rdma, "devices.rdma", "", ""},
                             {"*", set_variable, "site.environment", "", ""}};

/// What every container has mounted, as in 10-system.fstab and 20-config.fstab of Enroot (see plan/system_edits).
struct BuiltIn {
    std::string_view source, target;
    Fate fate = Fate::kept;
    std::string_view note = {};
};
constexpr BuiltIn built_in[] = {
    {"/proc", "/proc"},
    {"/sys", "/sys"},
    {"/dev", "/dev", Fate::kept, "see ENROOT_RESTRICT_DEV"},
    {"tmpfs", "/tmp"},
    {"tmpfs", "/run"},
    {"tmpfs", "/var/run"},
    {"tmpfs", "/var/lock", Fate::changed, "it is a folder of the image, or a link to /run/lock"},
    {"/dev/shm", "/dev/shm"},
    {"/dev/mqueue", "/dev/mqueue"},
    {"/dev/hugepages", "/dev/hugepages"},
    {"/etc/hosts", "/etc/hosts"},
    {"/etc/hostname", "/etc/hostname"},
    {"/etc/resolv.conf", "/etc/resolv.conf"},
    {"/etc/machine-id", "/etc/machine-id"},
    {"/etc/localtime", "/etc/localtime"},
};

/// One of Enroot's own hooks (conf/hooks of 3.0 to 4.1.2), by its name.
struct OwnHook {
    std::string_view name;
    Fate fate = Fate::kept;
    std::string_view note = "built in";
    /// A key that makes it as with Enroot, where berth.conf has it, and its word.
    std::string_view key = {}, word = {};
};
constexpr std::string_view cgroups =
    "a task sees the cgroups of the node, read-only; defaults.unshare = \"cgroup\" gives each task its own alone";
constexpr OwnHook own_hooks[] = {
    {"10-aptfix.sh"},
    {"10-cgroup.sh", Fate::changed, cgroups},
    {"10-cgroups.sh", Fate::changed, cgroups},
    {"10-devices.sh", Fate::kept, "see ENROOT_RESTRICT_DEV"},
    {"10-home.sh"},
    {"10-localtime.sh"},
    {"10-shadow.sh", Fate::changed, "a home that is not mounted is an empty folder, without the files of /etc/skel",
     "defaults.home", "skel"},
    {"50-mig-config.sh", Fate::changed, "no process in a container may change the MIG configuration"},
    {"50-sharp.sh"},
    {"50-slurm-pmi.sh"},
    {"50-slurm-pmix.sh"},
    {"50-slurm-pytorch.sh"},
    {"98-nvidia.sh"},
    {"99-nvidia.sh"},
    {"99-mellanox.sh"},
};

/// A line of mounts.d as a mount of Berth's.
struct Mount {
    std::string source;  ///< "tmpfs" and "umount" as in --container-mounts
    std::string target;
    std::string flags;  ///< with `+` between them
};

std::string escaped(const std::string& path) {
    std::string out;
    for (char c : path) out += c == ':' || c == ',' || c == '\\' ? cat("\\", c) : std::string(1, c);
    return out;
}

/// As --container-mounts and site.mounts have it.
std::string option_form(const Mount& mount) {
    return cat(escaped(mount.source), ":", escaped(mount.target), mount.flags.empty() ? "" : ":", mount.flags);
}

/// The path without ${NAME}, or why it has no place.
std::optional<std::string> path_of(const std::string& text, std::string& why) {
    Value value = parse_plain_value(text);
    if (auto path = value.path(Signs::of_job)) return path;
    why = cat(mounts_key, " has no sign for ", printable(value.expression_without_sign(Signs::of_job)),
              "; a program of hooks.folder can mount it, see berth-hooks(7)");
    return std::nullopt;
}

/// Nothing, with why, for what is no bind and no tmpfs.
std::optional<Mount> mount_of(const FstabLine& line, std::string& why) {
    auto source = path_of(line.source, why), target = path_of(line.target, why);
    if (!source || !target) return std::nullopt;
    bool unmounts = std::find(line.options.begin(), line.options.end(), "x-detach") != line.options.end();
    if (line.type == "tmpfs" || line.source == "tmpfs") {
        source = "tmpfs";
    } else if (unmounts) {
        source = "umount";
    } else if (line.type != "none" && line.type != "bind" && !line.type.empty()) {
        why = cat("containers mount folders of the node and tmpfs only; mount ", printable(line.type),
                  " on the node, and its folder here");
        return std::nullopt;
    }
    Mount out{*source, *target, {}};
    for (const std::string& option : line.options)
        if (!unmounts) out.flags += cat(out.flags.empty() ? "" : "+", option);
    return out;
}

/// What --container-mounts has against it; empty when it takes it. A sign stands for an absolute path.
std::string refusal_of(Mount mount) {
    for (std::string* path : {&mount.source, &mount.target})
        if (path->starts_with('%')) *path = "/" + *path;
    try {
        plan::parse_mounts(option_form(mount));
        return mount.source.starts_with('~') ? "a ~ is not expanded in the site's mounts; write %h" : "";
    } catch (const Error& error) {
        return split(error.what(), '\n').front();
    }
}

const BuiltIn* find_built_in(const FstabLine& line) {
    for (const BuiltIn& one : built_in)
        if (one.target == line.target && (one.source == line.source || one.source == line.type)) return &one;
    return nullptr;
}

void report_built_in(Draft& draft, const Place& place, const FstabLine& line, const BuiltIn& one) {
    bool sized = std::any_of(line.options.begin(), line.options.end(),
                             [](const std::string& option) { return option.starts_with("size="); });
    draft.report({sized ? Fate::changed : one.fate, place, {},
                  sized ? "limits.tmpfs_size has its size" : std::string(one.note)});
}

void report_own_hook(Draft& draft, const Place& place, const OwnHook& hook) {
    std::string key(hook.key);
    if (!key.empty() && draft.set(key, {text_form(std::string(hook.word))}, place) == Answer::taken)
        return draft.report({Fate::kept, place, draft.shown(key), {}});
    draft.report({hook.fate, place, {}, std::string(hook.note)});
}

/// Why the hook of a site cannot run as a program of hooks.folder, with the line in `place`; empty when it can.
std::string hook_refusal(const std::string& text, Place& place) {
    if (!text.starts_with("#!"))
        return "it does not begin with #!, or is no script; write a program for hooks.folder that does the same, see "
               "berth-hooks(7)";
    size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        auto has = [&](std::string_view word) { return line.find(word) != line.npos; };
        if (trimmed(line).starts_with('#') || !has("ENROOT_ROOTFS") || has("enroot-mount") || has("mkdir")) continue;
        place = {place.file, number, std::string(trimmed(line))};
        return "it looks at the container's files, which do not exist yet when hooks run; write a program for "
               "hooks.folder that adds mounts and variables, see berth-hooks(7)";
    }
    return {};
}

/// With ${NAME} as written, for the user's shell.
void report_users_mount(Draft& draft, const Place& place, const FstabLine& line, Mount mount) {
    if (mount.source != "tmpfs" && mount.source != "umount") mount.source = line.source;
    mount.target = line.target;
    draft.report({Fate::unplaced, place, {},
                  cat("the user says it: export BERTH_CONTAINER_MOUNTS=\"", printable(option_form(mount), 4096),
                      "\"")});
}

}  // namespace

void decide_variable(Draft& draft, const Setting& setting, const std::string& file, Owner owner) {
    bool named = !setting.name.empty();
    Place place{file, setting.line, named ? cat(setting.name, "=", setting.value) : setting.value};
    // Users keep secrets in variables, and reports are passed on.
    if (owner == Owner::user) place.what = named ? setting.name : "a line";
    if (!named)
        return draft.report({Fate::kept, place, {}, "Enroot passes over it: it is not NAME=VALUE"});
    if (setting.name.starts_with("ENROOT_"))
        return draft.report({Fate::kept, place, {}, "Enroot leaves its own variables out of containers"});
    if (owner == Owner::user)
        return draft.report({Fate::unplaced, place, {},
                             cat("the user says it: export it, and BERTH_CONTAINER_ENV=", setting.name,
                                 " if it is to override the image's")});
    for (const Row& row : variables)
        if (row.name == setting.name || row.name == "*")
            return row.decide(draft, row, {setting.name, parse_plain_value(setting.value), place});
}

void decide_mount(Draft& draft, const FstabLine& line, const std::string& file, Owner owner) {
    Place place{file, line.line, line.text};
    if (line.target.empty())
        return draft.report({Fate::unplaced, place, {}, "the line has no target; Enroot does not mount it either"});
    if (const BuiltIn* one = find_built_in(line)) return report_built_in(draft, place, line, *one);
    std::string why;
    std::optional<Mount> mount = mount_of(line, why);
    if (mount) why = refusal_of(*mount);
    if (!why.empty()) return draft.report({Fate::unplaced, place, {}, why});
    if (owner == Owner::user) return report_users_mount(draft, place, line, *mount);
    constexpr Row row = {"", nullptr, mounts_key, "",
                         "users can mount it by --container-mounts, a program of hooks.folder for all, see mounts in "
                         "berth-hooks(7)"};
    Found found{{}, {}, place};
    report_answer(draft, row, found, draft.add_item(mounts_key, option_form(*mount), place));
}

void decide_hook(Draft& draft, const HookFile& file, Owner owner) {
    std::string name = file.path.substr(file.path.rfind('/') + 1);
    Place place{file.path, 0, "program"};
    if (!name.ends_with(".sh") || !file.executable) {
        place.what = "file";
        return draft.report({Fate::kept, place, {}, "Enroot does not run it: it is no executable file NAME.sh"});
    }
    for (const OwnHook& hook : own_hooks)
        if (hook.name == name) return report_own_hook(draft, {file.path, 0, "hook of Enroot"}, hook);
    std::string why = owner == Owner::site ? hook_refusal(file.text, place)
                                           : "users have no hooks; the site may have a program in hooks.folder that "
                                             "does the same, see berth-hooks(7)";
    if (!why.empty()) return draft.report({Fate::unplaced, place, {}, why});
    std::string kept = name.substr(0, name.size() - 3) + ".enroot";
    draft.add_hook(kept, file.text);
    draft.report({Fate::changed, place, cat("hooks.d/", printable(kept)),
                  "it runs before the container has files: what it adds to ENROOT_MOUNTS and ENROOT_ENVIRON counts"});
}

void decide_login(Draft& draft, const Login& login, const std::string& file) {
    Place place{file, login.line, cat("login of ", login.machine)};
    if (!login.computed) return draft.report({Fate::kept, place, {}, "read as it is"});
    constexpr Row row = {"", nullptr, "registry.auth_commands", "",
                         "commands in .credentials are not run; write a token, or use a credential "
                         "program, see Logins in berth(1)"};
    Found found{{}, {}, place};
    report_answer(draft, row, found, draft.set(std::string(row.key), {flag_form(true)}, place));
}

}  // namespace berth::migrate
