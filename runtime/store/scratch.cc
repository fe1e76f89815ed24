#include "runtime/store/scratch.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

constexpr time_t foreign_age = 7 * 24 * 3600;

/// "HOST." with what is unusual in a file name taken out.
std::string host_prefix() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    std::string out = name;
    std::replace_if(out.begin(), out.end(), [](char c) { return c == '/' || c == '.'; }, '-');
    return out + ".";
}

bool is_abandoned(int tmp, const std::string& name, const std::string& own) {
    struct stat st {};
    if (::fstatat(tmp, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return false;
    // Another host's lock may be invisible here. Nor is its file opened: on NFS this host could keep it as it is now.
    if (!name.starts_with(own) && ::time(nullptr) - st.st_mtime < foreign_age) return false;
    Fd object = sys::try_open_at(tmp, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return object && ::flock(object.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

bool remove_scratch(int tmp, const std::string& name) {
    if (::unlinkat(tmp, name.c_str(), 0) == 0) return true;
    Fd directory = sys::try_open_at(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!directory) return false;
    try {
        sys::remove_tree(tmp, name, name);
        return true;
    } catch (const SysError&) {
        // What a dead process left is nobody's error; the next sweep finds it again.
        return false;
    }
}

ScratchGuard::ScratchGuard(int tmp) : tmp_(tmp) { ::flock(tmp_, LOCK_SH); }
ScratchGuard::~ScratchGuard() { ::flock(tmp_, LOCK_UN); }

Scratch::Scratch(int tmp, const std::string& where) : tmp_(tmp) {
    ScratchGuard guard(tmp);
    name_ = scratch_name();
    if (::mkdirat(tmp, name_.c_str(), 0700) != 0) {
        int number = errno;
        name_.clear();
        throw SysError(cat("creating a directory in ", printable(where, 4096)), number);
    }
    try {
        fd_ = sys::open_beneath(tmp, name_, O_RDONLY | O_DIRECTORY);
    } catch (const SysError& error) {
        ::unlinkat(tmp, name_.c_str(), AT_REMOVEDIR);
        throw SysError(cat("opening a directory in ", printable(where, 4096)), error.number());
    }
    ::flock(fd_.get(), LOCK_EX | LOCK_NB);
}

Scratch::~Scratch() {
    if (!name_.empty()) remove_scratch(tmp_, name_);
}

std::string scratch_name() {
    constexpr size_t digits = 16;
    return cat(host_prefix(), ::getpid(), ".", random_word().substr(0, digits));
}

std::string maker_of(const std::string& name) {
    std::vector<std::string> parts = split(name, '.');
    if (parts.size() < 2) return "another process";
    return cat("process ", printable(parts[1]), " on ", printable(parts[0]));
}

size_t sweep_scratch(int tmp) {
    if (::flock(tmp, LOCK_EX | LOCK_NB) != 0) return 0;
    std::string own = host_prefix();
    size_t removed = 0;
    try {
        for (const std::string& name : sys::list_directory(tmp, "tmp"))
            if (is_abandoned(tmp, name, own) && remove_scratch(tmp, name)) ++removed;
    } catch (const SysError&) {
        // The next sweep looks again.
    }
    ::flock(tmp, LOCK_UN);
    return removed;
}

}  // namespace berth::store
