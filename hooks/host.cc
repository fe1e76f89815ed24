#include "hooks/host.hh"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"

namespace berth::hooks {

namespace {
constexpr size_t file_limit = 4 << 20;

/// What a symlink says; `path` may be empty for `directory` itself. Nothing for what is no symlink, or not there.
std::optional<std::string> text_of_link(int directory, const char* path) {
    char text[PATH_MAX];
    ssize_t size = ::readlinkat(directory, path, text, sizeof text);
    return size < 0 ? std::nullopt : std::optional(std::string(text, static_cast<size_t>(size)));
}

/// Where an open object lies; empty when the kernel does not say.
std::string path_of(int object) { return text_of_link(AT_FDCWD, cat("/proc/self/fd/", object).c_str()).value_or(""); }
}  // namespace

Host::Host(std::string root)
    : root_(std::move(root)),
      directory_(sys::open_file(root_ + "/", O_PATH | O_DIRECTORY)),
      real_root_(root_.empty() ? "" : path_of(directory_.get())) {}

Host::~Host() = default;

/// O_NONBLOCK: no object of the node makes the hooks wait. openat2 takes it for no O_PATH.
Fd Host::open(const std::string& path, int flags) const {
    try {
        return sys::find_in_root(directory_.get(), path, flags & O_PATH ? flags : flags | O_NONBLOCK);
    } catch (const SysError&) {
        return {};
    }
}

bool Host::exists(const std::string& path) const {
    // The usual answer on a node without devices, at the price of one system call.
    if (root_.empty()) return sys::may_access(path, F_OK);
    return bool(open(path, O_PATH));
}

std::optional<std::string> Host::read(const std::string& path) const {
    Fd file = open(path, O_RDONLY);
    if (!file) return std::nullopt;
    try {
        return sys::read_all(file.get(), file_limit, printable(path, 4096));
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::string Host::read_part(const std::string& path, uint64_t offset, size_t size) const {
    Fd file = open(path, O_RDONLY);
    std::string out(file ? size : 0, '\0');
    ssize_t got = file ? ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(offset)) : 0;
    out.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return out;
}

bool Host::begins_with(const std::string& path, std::string_view bytes) const {
    Fd file = open(path, O_RDONLY);
    std::string begin(bytes.size(), '\0');
    return file && ::pread(file.get(), begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
           begin == bytes;
}

std::vector<std::string> Host::list(const std::string& path) const {
    Fd directory = open(path, O_RDONLY | O_DIRECTORY);
    if (!directory) return {};
    return sys::list_directory(directory.get(), printable(path, 4096));
}

std::optional<std::string> Host::resolved(const std::string& path) const {
    // Most have no symlink on the way: asking the kernel for the name of what was opened takes longer than looking it
    // up.
    bool plain = path.starts_with('/') && path.find("//") == path.npos && path.find("/.") == path.npos;
    try {
        if (plain && sys::find_beneath(directory_.get(), path.substr(1), O_PATH)) return path;
        // What is missing without a symlink on the way is missing.
        if (plain && errno == ENOENT) return std::nullopt;
    } catch (const SysError&) {
        // What may not be looked into is not there for the hooks.
        return std::nullopt;
    }
    Fd object = open(path, O_PATH);
    if (!object) return std::nullopt;
    std::string found = path_of(object.get());
    if (found.size() <= real_root_.size()) return std::nullopt;
    return found.substr(real_root_.size());
}

std::optional<std::string> Host::link_target(const std::string& path) const {
    if (root_.empty()) return text_of_link(AT_FDCWD, path.c_str());
    Fd object = open(path, O_PATH | O_NOFOLLOW);
    return object ? text_of_link(object.get(), "") : std::nullopt;
}

std::optional<DeviceNumber> Host::device(const std::string& path) const {
    struct stat st {};
    if (::stat(real(path).c_str(), &st) != 0 || !S_ISCHR(st.st_mode)) return std::nullopt;
    return DeviceNumber{major(st.st_rdev), minor(st.st_rdev)};
}

Access Host::access(const std::string& path, bool read_only) const {
    if (sys::may_access(real(path), read_only ? R_OK : R_OK | W_OK)) return Access::allowed;
    return errno == ENOENT || errno == ENOTDIR ? Access::missing : Access::denied;
}

bool Host::has_group(unsigned group) const {
    std::vector<gid_t> groups(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr))));
    int got = ::getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<size_t>(std::max(0, got)));
    return ::getegid() == group || std::ranges::find(groups, group) != groups.end();
}

uint64_t Host::lockable_memory() const {
    struct rlimit limit {};
    static_assert(RLIM_INFINITY == UINT64_MAX);
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

ProgramOutput Host::ask(const std::vector<std::string>& words, std::chrono::seconds timeout) const {
    ProgramAnswer answer = run_program("/proc/self/exe", words, "", timeout);
    if (answer.code == 0) return {std::move(answer.output), {}};
    if (answer.code < 0) return {std::nullopt, cat("it gave no answer within ", timeout.count(), " s")};
    // Without the program's name before it.
    const std::string start = "berth: ";
    if (answer.complaint.starts_with(start)) answer.complaint.erase(0, start.size());
    return {std::nullopt, answer.complaint.empty() ? cat("it ended with code ", answer.code) : answer.complaint};
}

}  // namespace berth::hooks
