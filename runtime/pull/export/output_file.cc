#include "runtime/pull/export/output_file.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/scratch.hh"

namespace berth::pull {

namespace {

/// The names that would be left by the end of the process.
struct Unfinished {
    std::mutex mutex;
    std::set<std::pair<int, std::string>> names;  ///< in a folder
};

Unfinished& unfinished() {
    static Unfinished all;
    return all;
}

std::string temporary_name() { return cat(".berth-import.", store::scratch_name()); }

/// A file without a name; empty where the file system has no such thing.
Fd nameless(int folder) {
    Fd file = sys::try_open_at(folder, ".", O_TMPFILE | O_RDWR, 0666);
    if (!file && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) throw SysError("making a file");
    return file;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
    size_t slash = path.rfind('/');
    name_ = path.substr(slash + 1);
    if (name_.empty()) throw Error(cat("writing ", printable(path, 4096), ": this names a folder; name a file"));
    folder_ = sys::open_file(slash == path.npos ? "."
                             : slash == 0       ? "/"
                                                : path.substr(0, slash),
                             O_RDONLY | O_DIRECTORY);
    try {
        file_ = nameless(folder_.get());
    } catch (const SysError& error) {
        throw SysError(cat("writing ", printable(path_, 4096)), error.number());
    }
    if (file_) return;
    name_temporarily(temporary_name());
    file_ = sys::open_at(folder_.get(), temporary_, O_RDWR | O_CREAT | O_EXCL, 0666);
}

OutputFile::~OutputFile() {
    if (temporary_.empty()) return;
    ::unlinkat(folder_.get(), temporary_.c_str(), 0);
    forget_temporary();
}

void OutputFile::abandon_all() {
    unfinished().mutex.lock();
    for (const auto& [folder, name] : unfinished().names) ::unlinkat(folder, name.c_str(), 0);
}

void OutputFile::name_temporarily(const std::string& name) {
    std::lock_guard lock(unfinished().mutex);
    temporary_ = name;
    unfinished().names.emplace(folder_.get(), name);
}

void OutputFile::forget_temporary() {
    std::lock_guard lock(unfinished().mutex);
    unfinished().names.erase({folder_.get(), temporary_});
    temporary_.clear();
}

void OutputFile::refuse_existing() const {
    struct stat st {};
    if (::fstatat(folder_.get(), name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) refuse();
}

void OutputFile::publish(bool force) {
    if (!sys::synced(file_.get())) fail();
    // A link, unlike a rename, never replaces anything. Where nothing is to be replaced it leaves no other name,
    // whenever this process is killed.
    bool is_linked = (!force || temporary_.empty()) && link_as(name_);
    if (!is_linked && !force) errno == EEXIST ? refuse() : fail();
    if (!is_linked) {
        if (temporary_.empty()) {
            name_temporarily(temporary_name());
            if (::linkat(AT_FDCWD, file_path().c_str(), folder_.get(), temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
                fail();
        }
        if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) fail();
        forget_temporary();
    }
    if (!sys::synced(folder_.get())) fail();
}

Fd OutputFile::scratch() const {
    if (Fd file = nameless(folder_.get())) return file;
    std::string name = temporary_name();
    Fd file = sys::open_at(folder_.get(), name, O_RDWR | O_CREAT | O_EXCL, 0600);
    ::unlinkat(folder_.get(), name.c_str(), 0);
    return file;
}

bool OutputFile::link_as(const std::string& name) const {
    if (!temporary_.empty()) return ::linkat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str(), 0) == 0;
    return ::linkat(AT_FDCWD, file_path().c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

std::string OutputFile::file_path() const { return cat("/proc/self/fd/", file_.get()); }

void OutputFile::refuse() const {
    throw Error(cat("writing ", printable(path_, 4096), ": it exists already; remove it or use --force"));
}

void OutputFile::fail() const {
    int number = errno;
    throw SysError(cat("writing ", printable(path_, 4096)), number);
}

}  // namespace berth::pull
