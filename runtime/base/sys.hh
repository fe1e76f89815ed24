// System calls on files and directories: thin wrappers that return owners and throw SysError.
#pragma once
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::sys {

/// openat with O_CLOEXEC; throws SysError "opening PATH".
Fd open_at(int directory, const std::string& path, int flags, mode_t mode = 0);
inline Fd open_file(const std::string& path, int flags, mode_t mode = 0) {
    return open_at(-100 /* AT_FDCWD */, path, flags, mode);
}

/// As open_at, but an empty Fd when the object does not exist (ENOENT, ENOTDIR).
Fd open_if_exists(int directory, const std::string& path, int flags);

/// Opens `path` as if `root` were the root directory: symlinks, `..` and absolute names stay inside (openat2
/// RESOLVE_IN_ROOT, no magic links; a component walk on kernels without openat2). Throws SysError.
Fd open_in_root(int root, const std::string& path, int flags, mode_t mode = 0);

/// As open_in_root, but an empty Fd when there is nothing (ENOENT).
Fd find_in_root(int root, const std::string& path, int flags);

/// Opens `path` below `directory` following no symlink at all and never leaving it. Throws SysError.
Fd open_beneath(int directory, const std::string& path, int flags, mode_t mode = 0);

/// As open_beneath, and crosses no mount (EXDEV). Kernels without openat2 do not tell mounts.
Fd open_beneath_here(int directory, const std::string& path, int flags);

/// As open_beneath, but an empty Fd when there is nothing, or a symlink on the way.
Fd find_beneath(int directory, const std::string& path, int flags);

/// The whole content of a descriptor or file. Throws Error when it is longer than `limit` bytes.
std::string read_all(int fd, size_t limit, const std::string& what);
std::string read_file(const std::string& path, size_t limit = 1 << 20);

/// The reading and the writing end of a new pipe, close-on-exec. Throws SysError.
std::pair<Fd, Fd> make_pipe();

/// Two connected sockets of a stream, close-on-exec. Throws SysError.
std::pair<Fd, Fd> make_stream_pair();

/// Has the kernel bring the whole pages of new memory in at once, where it can (Linux 5.14), instead of by a fault each
/// as they are written.
void make_present(std::span<char> memory);

/// Writes all bytes, resuming after interruptions and short writes. Throws SysError "writing WHAT".
void write_all(int fd, std::string_view data, const std::string& what);

/// Fills all of `buffer` with the bytes at `offset`; false at a short file; throws SysError "reading WHAT".
bool pread_exact(int fd, std::span<char> buffer, uint64_t offset, const std::string& what);

/// Writes all of `bytes` at `offset`. Throws SysError "writing WHAT".
void pwrite_all(int fd, std::string_view bytes, uint64_t offset, const std::string& what);

/// A structure of a file's format, or several, as a buffer to read into.
template <typename Record>
std::span<char> bytes_of(Record& record) {
    static_assert(std::is_trivially_copyable_v<Record>);
    return {reinterpret_cast<char*>(&record), sizeof record};
}
template <typename Record>
std::span<char> bytes_of(std::span<Record> records) {
    static_assert(std::is_trivially_copyable_v<Record>);
    return {reinterpret_cast<char*>(records.data()), records.size_bytes()};
}

/// Creates `path` and its missing parents with `mode`. An existing directory is fine.
void make_directories(const std::string& path, mode_t mode);

/// The names in a directory but `.` and `..`, sorted by their bytes. Throws SysError "listing WHAT".
std::vector<std::string> list_directory(int directory, const std::string& what);

struct stat stat_of(int fd, const std::string& what);

/// Where an open file or directory lies, without symlinks, as this process's root has it (/proc/self/fd). Throws
/// SysError.
std::string opened_path(int fd);

Fd pidfd_open(pid_t pid);

}  // namespace berth::sys
