#include "runtime/base/sys.hh"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/old_lookup.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/text.hh"

namespace berth::sys {

namespace {

int openat2(int directory, const std::string& path, int flags, mode_t mode, uint64_t resolve) {
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
    how.mode = flags & (O_CREAT | O_TMPFILE) ? mode : 0;
    how.resolve = resolve;
    for (;;) {
        // EAGAIN: a rename or mount raced with a ".." in the path; the kernel asks us to try again.
        int fd = static_cast<int>(
            uninterrupted([&] { return syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how); }));
        if (fd >= 0 || (errno != EAGAIN && errno != ENOSYS)) return fd;
        if (errno == ENOSYS) return old::open_inside(directory, path, flags, mode, (resolve & RESOLVE_BENEATH) != 0);
    }
}

}  // namespace

bool synced(int fd) {
    return uninterrupted([&] { return ::fsync(fd); }) == 0;
}

Fd try_open_at(int directory, const std::string& path, int flags, mode_t mode) {
    return Fd(uninterrupted([&] { return ::openat(directory, path.c_str(), flags | O_CLOEXEC, mode); }));
}

Fd open_at(int directory, const std::string& path, int flags, mode_t mode) {
    Fd fd = try_open_at(directory, path, flags, mode);
    if (!fd) throw SysError(cat("opening ", printable(path, 4096)));
    return fd;
}

Fd open_if_exists(int directory, const std::string& path, int flags) {
    Fd fd = try_open_at(directory, path, flags);
    if (!fd && errno != ENOENT && errno != ENOTDIR) throw SysError(cat("opening ", printable(path, 4096)));
    return fd;
}

Fd open_in_root(int root, const std::string& path, int flags, mode_t mode) {
    Fd fd(openat2(root, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS));
    if (!fd) throw SysError(cat("opening ", printable(path, 4096), " in the container's root"));
    return fd;
}

Fd find_in_root(int root, const std::string& path, int flags) {
    Fd fd(openat2(root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS));
    if (!fd && errno != ENOENT) throw SysError(cat("opening ", printable(path, 4096), " in the container's root"));
    return fd;
}

Fd open_beneath(int directory, const std::string& path, int flags, mode_t mode) {
    Fd fd(openat2(directory, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
    if (!fd) throw SysError(cat("opening ", printable(path, 4096)));
    return fd;
}

Fd open_beneath_here(int directory, const std::string& path, int flags) {
    Fd fd(openat2(directory, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV));
    if (!fd) throw SysError(cat("opening ", printable(path, 4096)));
    return fd;
}

Fd find_beneath(int directory, const std::string& path, int flags) {
    Fd fd(openat2(directory, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
    if (!fd && errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EXDEV)
        throw SysError(cat("opening ", printable(path, 4096)));
    return fd;
}

std::string read_all(int fd, size_t limit, const std::string& what) {
    std::string out;
    char buffer[16384];
    for (;;) {
        ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SysError(cat("reading ", what));
        if (got == 0) return out;
        out.append(buffer, static_cast<size_t>(got));
        if (out.size() > limit) throw Error(cat("reading ", what, ": longer than the limit of ", limit, " bytes"));
    }
}

std::string read_file(const std::string& path, size_t limit) {
    return read_all(open_file(path, O_RDONLY).get(), limit, path);
}

void write_all(int fd, std::string_view data, const std::string& what) {
    while (!data.empty()) {
        ssize_t put = ::write(fd, data.data(), data.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) throw SysError(cat("writing ", what));
        data.remove_prefix(static_cast<size_t>(put));
    }
}

bool pread_exact(int fd, std::span<char> buffer, uint64_t offset, const std::string& what) {
    while (!buffer.empty()) {
        ssize_t got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SysError(cat("reading ", what));
        if (got == 0) return false;
        buffer = buffer.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
    }
    return true;
}

void pwrite_all(int fd, std::string_view bytes, uint64_t offset, const std::string& what) {
    while (!bytes.empty()) {
        ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) throw SysError(cat("writing ", what), put < 0 ? errno : EIO);
        bytes.remove_prefix(static_cast<size_t>(put));
        offset += static_cast<uint64_t>(put);
    }
}

void make_directories(const std::string& path, mode_t mode) {
    for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        std::string part = path.substr(0, slash);
        if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
            int number = errno;
            struct stat st {};
            // A read-only or foreign parent that is already there is no error.
            if (::stat(part.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
                throw SysError(cat("creating the directory ", printable(part, 4096)), number);
        }
        if (slash == std::string::npos) return;
    }
}

std::vector<std::string> list_directory(int directory, const std::string& what) {
    // A descriptor of its own: the caller's position stays. No stream, which costs three system calls more: hooks list
    // many a folder of two names.
    Fd copy = try_open_at(directory, ".", O_RDONLY | O_DIRECTORY);
    if (!copy) throw SysError(cat("listing ", what));
    std::vector<std::string> out;
    alignas(dirent64) char buffer[32 << 10];
    for (ssize_t got; (got = ::getdents64(copy.get(), buffer, sizeof buffer)) != 0;) {
        // It was removed meanwhile: then it is empty, as the C library has it.
        if (got < 0 && errno == ENOENT) break;
        if (got < 0) throw SysError(cat("listing ", what));
        const dirent64* entry;
        for (ssize_t at = 0; at < got; at += entry->d_reclen) {
            entry = reinterpret_cast<const dirent64*>(buffer + at);
            if (std::string name = entry->d_name; name != "." && name != "..") out.push_back(std::move(name));
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

struct stat stat_of(int fd, const std::string& what) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) throw SysError(cat("examining ", what));
    return st;
}

std::string opened_path(int fd) {
    char text[PATH_MAX];
    ssize_t size = ::readlink(cat("/proc/self/fd/", fd).c_str(), text, sizeof text);
    if (size < 0) throw SysError("asking the kernel for the path of an open file (is /proc mounted?)");
    return {text, static_cast<size_t>(size)};
}

std::pair<Fd, Fd> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
    return {Fd(ends[0]), Fd(ends[1])};
}

std::pair<Fd, Fd> make_stream_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw SysError("making a socket pair");
    return {Fd(ends[0]), Fd(ends[1])};
}

void make_present(std::span<char> memory) {
    const uintptr_t page = page_size();
    size_t before = (page - reinterpret_cast<uintptr_t>(memory.data()) % page) % page;
    if (memory.size() < before + page) return;
    // An older kernel says that it cannot, and the faults do it.
    (void)::madvise(memory.data() + before, (memory.size() - before) / page * page, MADV_POPULATE_WRITE);
}

Fd pidfd_open(pid_t pid) {
    // Not through <sys/pidfd.h>: glibc 2.36 declares its functions without C linkage.
    Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!fd) throw SysError(cat("opening a handle of process ", pid));
    return fd;
}

}  // namespace berth::sys
