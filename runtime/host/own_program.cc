#include "runtime/host/own_program.hh"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr const char* self = "/proc/self/exe";
constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
/// memfd_create(2): of the name, without the terminator.
constexpr size_t name_limit = 249;
/// What the kernel puts around that name (proc(5), /proc/PID/fd).
constexpr std::string_view before_name = "/memfd:", behind_name = " (deleted)";

std::string copying(const std::string& path) {
    return cat("protecting your file ", printable(path, 4096), " from images by a copy of it in memory");
}

/// A copy that can neither be written to nor made shorter; its name is the path.
Fd sealed_copy(int file, uint64_t size, const std::string& path) {
    if (path.size() > name_limit)
        throw Error(cat(copying(path), ": its path has more than ", name_limit, " bytes; install berth elsewhere"));
    Fd copy(::memfd_create(path.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!copy) throw SysError(copying(path));
    for (uint64_t done = 0; done < size;) {
        ssize_t sent = ::sendfile(copy.get(), file, nullptr, size - done);
        if (sent <= 0) throw SysError(copying(path), sent < 0 ? errno : EIO);
        done += static_cast<uint64_t>(sent);
    }
    if (::fcntl(copy.get(), F_ADD_SEALS, seals) != 0) throw SysError(copying(path));
    return copy;
}

}  // namespace

std::string own_program_path() {
    char text[PATH_MAX];
    ssize_t size = ::readlink(self, text, sizeof text);
    if (size <= 0 || size == static_cast<ssize_t>(sizeof text)) throw SysError(cat("reading ", self));
    std::string_view path(text, static_cast<size_t>(size));
    if (path.starts_with(before_name) && path.ends_with(behind_name)) {
        path.remove_prefix(before_name.size());
        path.remove_suffix(behind_name.size());
    }
    return std::string(path);
}

void leave_own_file(char** arguments) {
    Fd file = sys::open_file(self, O_RDONLY);
    struct stat st = sys::stat_of(file.get(), self);
    if (st.st_uid != ::geteuid() && ::access(self, W_OK) != 0) return;
    // Such a copy already. Its name is that of the program again, for those who list processes.
    if (int has = ::fcntl(file.get(), F_GET_SEALS); has >= 0 && (has & seals) == seals) {
        ::prctl(PR_SET_NAME, "berth");
        return;
    }
    std::string path = own_program_path();
    Fd copy = sealed_copy(file.get(), static_cast<uint64_t>(st.st_size), path);
    ::syscall(SYS_execveat, copy.get(), "", arguments, environ, AT_EMPTY_PATH);
    throw SysError(cat(copying(path), "; let root own the file where that is forbidden (vm.memfd_noexec)"));
}

}  // namespace berth
