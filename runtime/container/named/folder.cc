#include "runtime/container/named/folder.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/request/names.hh"

namespace berth {

namespace {

constexpr size_t record_limit = 8 << 20;
constexpr int backlog = 128;
constexpr int step_ms = 20;

std::string shown(const std::string& path) { return printable(path, 4096); }

void check_owner(int fd, const std::string& path) {
    struct stat st = sys::stat_of(fd, shown(path));
    if (st.st_uid != ::geteuid())
        throw Error(cat("containers in ", shown(path), ": the folder belongs to uid ", st.st_uid,
                        ", not to you; set data.path or BERTH_DATA_PATH"));
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        throw Error(
            cat("containers in ", shown(path), ": others can write to the folder; run chmod go-w ", shown(path)));
}

/// A socket's address is at most 108 bytes, a folder's path is not: it goes by way of a descriptor.
sockaddr_un address_in(int directory) {
    sockaddr_un out{};
    out.sun_family = AF_UNIX;
    std::string path = cat("/proc/self/fd/", directory, "/socket");
    std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
    return out;
}

Fd new_socket() {
    Fd out(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!out) throw SysError("making the socket of a container");
    return out;
}

bool try_flock(int fd) {
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return false;
        if (errno != EINTR) throw SysError("locking a container; data.path must be on a local file system");
    }
    return true;
}

}  // namespace

ContainerFolder ContainerFolder::open(const std::string& path, const std::string& scope) {
    if (path.empty() || path[0] != '/')
        throw Error(cat("containers in '", shown(path), "': data.path must be an absolute path"));
    std::string folder = path;
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    sys::make_directories(folder, 0700);
    Fd root = sys::try_open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!root && (errno == ELOOP || errno == ENOTDIR))
        throw Error(cat("containers in ", shown(folder),
                        ": it is no directory but a link or a file; set data.path or BERTH_DATA_PATH"));
    if (!root) throw SysError(cat("opening the folder of containers ", shown(folder)));
    check_owner(root.get(), folder);
    if (::mkdirat(root.get(), "locks", 0700) != 0 && errno != EEXIST)
        throw SysError(cat("creating ", shown(folder), "/locks"));
    return ContainerFolder(folder, scope + "_", std::move(root));
}

std::string ContainerFolder::path_of(const std::string& name) const { return cat(path_, "/", prefix_, name); }

std::vector<std::string> ContainerFolder::names() const {
    std::vector<std::string> out;
    for (const std::string& name : sys::list_directory(root_.get(), shown(path_)))
        if (name.starts_with(prefix_) &&
            ::faccessat(root_.get(), (name + "/state").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            out.push_back(name.substr(prefix_.size()));
    return out;
}

std::vector<uint32_t> ContainerFolder::jobs() const {
    std::vector<uint32_t> out;
    for (const std::string& name : sys::list_directory(root_.get(), shown(path_))) {
        uint64_t job = 0;
        size_t line = name.find('_');
        if (name.starts_with("job") && line != name.npos && parse_number(name.substr(3, line - 3), UINT32_MAX, job))
            out.push_back(static_cast<uint32_t>(job));
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::vector<std::string> ContainerFolder::scopes() const {
    std::vector<std::string> out;
    for (const std::string& name : sys::list_directory(root_.get(), shown(path_)))
        if (size_t line = name.find('_');
            line != name.npos && ::faccessat(root_.get(), (name + "/state").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            out.push_back(name.substr(0, line));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

Fd ContainerFolder::directory(const std::string& name) const {
    plan::check_container_name(name);
    return sys::open_beneath(root_.get(), cat(prefix_, name), O_RDONLY | O_DIRECTORY);
}

Lock ContainerFolder::lock(const std::string& name, const std::function<void()>& waiting,
                         const std::function<void()>& turn) const {
    plan::check_container_name(name);
    auto start = std::chrono::steady_clock::now();
    for (bool told = false;;) {
        Fd file = sys::open_beneath(root_.get(), cat("locks/", prefix_, name), O_RDWR | O_CREAT, 0600);
        while (!try_flock(file.get())) {
            if (!told && waiting && std::chrono::steady_clock::now() - start > std::chrono::seconds(1))
                told = true, waiting();
            if (turn) turn();
            ::poll(nullptr, 0, step_ms);
        }
        // `berth rm` may have taken its name away in between; then it locks nothing.
        if (sys::stat_of(file.get(), "a container's lock").st_nlink > 0) return Lock(std::move(file));
    }
}

std::optional<plan::ContainerRecord> ContainerFolder::find(const std::string& name) const {
    plan::check_container_name(name);
    Fd file;
    try {
        file = sys::open_beneath(root_.get(), cat(prefix_, name, "/state"), O_RDONLY);
    } catch (const SysError& error) {
        if (error.number() == ENOENT) return std::nullopt;
        throw;
    }
    std::string what = cat("the state of container ", name);
    return plan::parse_record(sys::read_all(file.get(), record_limit, what), what);
}

void ContainerFolder::create(const std::string& name, const plan::ContainerRecord& record,
                             const std::function<void(int folder)>& fill) const {
    plan::check_container_name(name);
    std::string folder = cat(prefix_, name), what = cat("container ", name);
    sys::remove_tree(root_.get(), folder, what);
    if (::mkdirat(root_.get(), folder.c_str(), 0700) != 0) throw SysError(cat("creating ", what, " in ", shown(path_)));
    Fd made = directory(name);
    // What the container sees as the mode of its root.
    for (const char* part : {"upper", "work"})
        if (::mkdirat(made.get(), part, 0755) != 0 || ::fchmodat(made.get(), part, 0755, 0) != 0)
            throw SysError(cat("creating ", what, " in ", shown(path_)));
    if (fill) fill(made.get());
    Fd state = sys::open_at(made.get(), "state.new", O_WRONLY | O_CREAT | O_EXCL, 0600);
    sys::write_all(state.get(), plan::record_text(record), cat("the state of ", what));
    // The name comes last: with it the container is there.
    if (!sys::synced(state.get()) || ::renameat(made.get(), "state.new", made.get(), "state") != 0 ||
        !sys::synced(made.get()) || !sys::synced(root_.get()))
        throw SysError(cat("creating ", what, " in ", shown(path_)));
}

void ContainerFolder::discard(const std::string& name) const {
    plan::check_container_name(name);
    std::string folder = cat(prefix_, name), what = cat("container ", name);
    Fd held;
    try {
        held = directory(name);
    } catch (const SysError& error) {
        // Without even a folder there is nobody who could hold it.
        if (error.number() != ENOENT) throw;
    }
    if (held && !try_flock(held.get()))
        throw Error(cat("removing ", what, ": it is being saved; try again when that is done"));
    // The state goes first: without it nobody takes the rest for a container.
    if (::unlinkat(root_.get(), (folder + "/state").c_str(), 0) != 0 && errno != ENOENT && errno != ENOTDIR)
        throw SysError(cat("removing ", what));
    sys::remove_tree(root_.get(), folder, what);
}

void ContainerFolder::remove(const std::string& name) const {
    discard(name);
    if (::unlinkat(root_.get(), cat("locks/", prefix_, name).c_str(), 0) != 0 && errno != ENOENT)
        throw SysError(cat("removing container ", name));
}

Lock ContainerFolder::hold(const std::string& name) const {
    Fd out = directory(name);
    if (::flock(out.get(), LOCK_SH | LOCK_NB) != 0)
        throw SysError(cat("reading container ", name, ", which is being removed"));
    return Lock(std::move(out));
}

Fd ContainerFolder::upper(const std::string& name) const {
    return sys::open_beneath(directory(name).get(), "upper", O_RDONLY | O_DIRECTORY);
}

Fd ContainerFolder::listen(const std::string& name) const {
    Fd folder = directory(name), out = new_socket();
    if (::unlinkat(folder.get(), "socket", 0) != 0 && errno != ENOENT)
        throw SysError(cat("replacing the socket of container ", name));
    sockaddr_un address = address_in(folder.get());
    if (::bind(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(out.get(), backlog) != 0)
        throw SysError(cat("making the socket of container ", name, " in ", shown(path_)));
    return out;
}

Fd ContainerFolder::connect(const std::string& name) const {
    Fd folder;
    try {
        folder = directory(name);
    } catch (const SysError& error) {
        if (error.number() == ENOENT) return {};
        throw;
    }
    Fd out = new_socket();
    sockaddr_un address = address_in(folder.get());
    auto connected = [&] { return ::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address); };
    if (sys::uninterrupted(connected) == 0) return out;
    if (errno == ENOENT || errno == ECONNREFUSED) return {};
    throw SysError(cat("connecting to the helper of container ", name));
}

Lock ContainerFolder::running_lock(const std::string& name, int timeout_ms) const {
    Fd file = sys::open_at(directory(name).get(), "running", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    for (; !try_flock(file.get()); timeout_ms -= step_ms) {
        if (timeout_ms <= 0) return {};
        ::poll(nullptr, 0, step_ms);
    }
    return Lock(std::move(file));
}

ContainerFolder open_container_folder(const plan::Site& site, const plan::Caller& caller, const std::string& scope) {
    std::string path = plan::path_for(site.data.path, caller);
    bool built_in = site.data.path == plan::Site{}.data.path;
    bool possible = sys::may_access(path, F_OK) || sys::may_access(path.substr(0, path.rfind('/')), W_OK);
    if (!possible && built_in && !caller.home.empty()) path = caller.home + "/.local/share/berth/containers";
    return ContainerFolder::open(path, scope);
}

uint64_t bytes_on_disk(int upper) {
    uint64_t bytes = 0;
    std::deque<std::string> pending{"."};
    for (; !pending.empty(); pending.pop_front()) try {
            Fd directory = sys::open_beneath(upper, pending.front(), O_RDONLY | O_DIRECTORY);
            for (const std::string& name : sys::list_directory(directory.get(), "a container")) {
                struct stat st {};
                if (::fstatat(directory.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
                // A file of several names counts as a share for each of them.
                bytes += static_cast<uint64_t>(st.st_blocks) * 512 /
                         (S_ISDIR(st.st_mode) ? 1 : std::max<uint64_t>(st.st_nlink, 1));
                if (S_ISDIR(st.st_mode)) pending.push_back(cat(pending.front(), "/", name));
            }
        } catch (const SysError&) {
            // Gone meanwhile, or not readable: the sum is of what can be seen.
        }
    return bytes;
}

}  // namespace berth
