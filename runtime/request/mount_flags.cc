#include "runtime/request/mount_flags.hh"

#include <algorithm>
#include <iterator>

#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

/// What holds for every mount, what the kernel does anyway, what a bind leaves to the file system that it shows, and
/// what means something to programs that read fstab only. Enroot accepts the same (bin/enroot-mount.c of 4.1.2).
constexpr std::string_view harmless[] = {
    "rw",       "exec",  "nosuid", "nodev",   "relatime", "norelatime", "nostrictatime", "atime",
    "diratime", "async", "loud",   "silent",  "nomand",   "auto",       "noauto",        "defaults",
    "user",     "users", "nouser", "nousers", "owner",    "noowner",    "group",         "nogroup",
    "noatime",  "sync",  "dirsync", "mand",   "strictatime", "nodiratime", "lazytime",     "nolazytime",
    "iversion", "noiversion"};

struct PropagationWord {
    std::string_view word;
    Propagation value;
};
constexpr PropagationWord propagations[] = {{"private", Propagation::isolated},
                                            {"slave", Propagation::slave},
                                            {"shared", Propagation::shared},
                                            {"unbindable", Propagation::unbindable}};

constexpr std::string_view tmpfs_keys[] = {"size", "mode", "nr_inodes", "huge"};

bool is_harmless(std::string_view flag) {
    return std::find(std::begin(harmless), std::end(harmless), flag) != std::end(harmless);
}

bool set_propagation(MountRequest& mount, std::string_view flag) {
    if (flag.starts_with("r")) flag.remove_prefix(1);
    for (const auto& [word, value] : propagations)
        if (flag == word) {
            mount.propagation = value;
            return true;
        }
    return false;
}

bool set_switch(MountRequest& mount, std::string_view flag) {
    if (flag == "ro")
        mount.read_only = true;
    else if (flag == "noexec")
        mount.no_exec = true;
    else if (flag == "nofail")
        mount.optional = true;
    else if (flag == "bind" || flag == "rbind")
        mount.recursive = flag == "rbind";
    else
        return false;
    return true;
}

bool is_kind(std::string_view flag) { return flag == "squashfs" || flag == "sqsh"; }

std::string make_squashfs(MountRequest& mount) {
    using Kind = MountRequest::Kind;
    if (mount.kind == Kind::bind) mount.kind = Kind::squashfs;
    if (mount.kind != Kind::squashfs) return "the flag 'squashfs' is for a file: write FILE:DST:squashfs";
    mount.read_only = true;
    return {};
}

/// What a bind or a directory that can be written to may have.
bool is_refused_for_squashfs(std::string_view flag) {
    return flag == "rw" || flag == "bind" || flag == "rbind" || flag == "x-create=file";
}

bool set_creation(MountRequest& mount, std::string_view flag) {
    if (flag == "x-create=auto")
        mount.create = CreateTarget::automatic;
    else if (flag == "x-create=dir")
        mount.create = CreateTarget::directory;
    else if (flag == "x-create=file")
        mount.create = CreateTarget::file;
    else
        return false;
    return true;
}

/// What a value may be made of; the kernel judges the rest.
bool is_plain(std::string_view value) {
    auto plain = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '%' ||
               c == '.';
    };
    return !value.empty() && value.size() <= 32 && std::all_of(value.begin(), value.end(), plain);
}

bool set_tmpfs_option(MountRequest& mount, std::string_view flag) {
    size_t equals = flag.find('=');
    if (mount.kind != MountRequest::Kind::tmpfs || equals == flag.npos) return false;
    std::string_view key = flag.substr(0, equals), value = flag.substr(equals + 1);
    if (std::find(std::begin(tmpfs_keys), std::end(tmpfs_keys), key) == std::end(tmpfs_keys) || !is_plain(value))
        return false;
    mount.options.emplace_back(key, value);
    return true;
}

}  // namespace

std::string apply_mount_flag(MountRequest& mount, std::string_view flag) {
    if (is_kind(flag)) return make_squashfs(mount);
    bool squashfs = mount.kind == MountRequest::Kind::squashfs;
    if (squashfs && is_refused_for_squashfs(flag))
        return cat("the flag '", flag,
                   "' is not possible: what is in a squashfs file is a directory that is only read");
    // As lines of fstab for the kernel's squashfs have it.
    if (squashfs && flag == "loop") return {};
    if (set_switch(mount, flag) || set_propagation(mount, flag) || set_creation(mount, flag) ||
        set_tmpfs_option(mount, flag) || is_harmless(flag))
        return {};
    // Enroot's own flag for what `umount` does anyway.
    if (flag == "x-detach" && mount.kind == MountRequest::Kind::umount) return {};
    if (flag == "suid" || flag == "dev")
        return cat("the flag '", flag,
                   "' is not possible: no mount in a container has set-user-id programs or device files");
    return cat("unknown flag '", printable(flag),
               "' (known: ro rw exec noexec bind rbind private slave shared unbindable nofail x-create=auto|dir|file "
               "squashfs, of a tmpfs also size= mode= nr_inodes= huge=, joined by +)");
}

std::string take_kind(MountRequest& mount, const std::vector<std::string>& flags) {
    return std::ranges::any_of(flags, is_kind) ? make_squashfs(mount) : std::string();
}

}  // namespace berth::plan
