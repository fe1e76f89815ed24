#include "runtime/telemetry/counters_file.hh"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr std::string_view ending = ".counters";

std::string name_for(uid_t uid) { return cat(uid, ending); }

/// Tries `tries` times, a millisecond apart.
bool lock(int file, int operation, int tries) {
    for (int i = 0; i < tries; ++i) {
        if (::flock(file, operation | LOCK_NB) == 0) return true;
        timespec pause{0, 1'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return false;
}

/// `what` names the file in errors.
std::string content_of(int file, const std::string& what) {
    std::string out(plan::counters_size(), '\0');
    return sys::pread_exact(file, out, 0, what) ? out : std::string();
}

/// A user may put anything under this name: a symlink, a pipe, a lease that others wait for, a file system of his own
/// that never answers.
Fd open_for_sum(int folder, const std::string& name, uint64_t flags = 0) {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    Fd out(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how)));
    if (!out) throw SysError(cat("reading the counters ", name));
    return out;
}

plan::Counters read_one(int folder, const std::string& name, uid_t uid) {
    Fd file = open_for_sum(folder, name);
    struct stat status = sys::stat_of(file.get(), name);
    if (!S_ISREG(status.st_mode) || status.st_uid != uid || status.st_nlink != 1)
        throw Error(cat("reading the counters ", name, ": not a plain file of user ", uid, "; remove it"));
    if (!lock(file.get(), LOCK_SH, 20))
        throw Error(
            cat("reading the counters ", name, ": a process of user ", uid, " keeps them locked; left out this time"));
    auto counters = plan::parse_counters(
        static_cast<size_t>(status.st_size) == plan::counters_size() ? content_of(file.get(), name) : "");
    if (!counters)
        throw Error(cat("reading the counters ", name,
                        ": they have another form; remove the file, or wait for the user's next start"));
    return *counters;
}

/// Adds what `uid` counted in `folder`, or why it is refused. Root makes folders in which nothing is counted yet.
void add_one(CountersSum& sum, int folder, uid_t uid) {
    try {
        sum.counters.add(read_one(folder, name_for(uid), uid));
        ++sum.files;
    } catch (const SysError& error) {
        if (error.number() != ENOENT) sum.refused.emplace_back(error.what());
    } catch (const Error& error) {
        sum.refused.emplace_back(error.what());
    }
}

/// True for "1000.counters" and the like.
bool parse_name(const std::string& name, uint64_t& uid) {
    if (!name.ends_with(ending)) return false;
    return parse_number(std::string_view(name).substr(0, name.size() - ending.size()), UINT32_MAX - 1, uid) &&
           name == name_for(static_cast<uid_t>(uid));
}

}  // namespace

Fd open_counters(const std::string& folder, uid_t uid) {
    std::string path = cat(folder, "/", name_for(uid));
    Fd out = sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
    struct stat status = sys::stat_of(out.get(), path);
    if (!S_ISREG(status.st_mode) || status.st_uid != uid)
        throw Error(cat("opening the counters ", printable(path, 4096), ": not a plain file of user ", uid,
                        "; let root remove it"));
    return out;
}

bool count_event(int file, const plan::Event& event) {
    if (!lock(file, LOCK_EX, 100)) return false;
    // What cannot be read begins at zero again, which those who compute rates are prepared for.
    plan::Counters counters = plan::parse_counters(content_of(file, "the counters")).value_or(plan::Counters());
    counters.count(event);
    std::string text = plan::counters_text(counters);
    bool written = ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                   ::ftruncate(file, static_cast<off_t>(text.size())) == 0;
    ::flock(file, LOCK_UN);
    if (!written) throw SysError(cat("writing the counters of user ", event.uid));
    return true;
}

CountersSum sum_counters(const std::string& folder, uid_t uid) {
    Fd opened = sys::open_file(folder, O_RDONLY | O_DIRECTORY);
    CountersSum out;
    for (const std::string& name : sys::list_directory(opened.get(), folder)) {
        uint64_t owner = 0;
        if (parse_name(name, owner) && (uid == 0 || owner == uid))
            add_one(out, opened.get(), static_cast<uid_t>(owner));
    }
    return out;
}

CountersSum sum_all_counters(const std::string& folders) {
    size_t slash = folders.rfind('/'), sign = folders.find("%U", slash);
    if (slash == folders.npos || sign == folders.npos || folders.find('%') != sign)
        throw Error(cat("reading the counters in ", printable(folders, 4096),
                        ": with a folder for each user, events.counters has %U in its last part and no other sign"));
    std::string parent = folders.substr(0, slash + 1), start = folders.substr(slash + 1, sign - slash - 1),
                end = folders.substr(sign + 2);
    Fd opened = sys::open_file(parent, O_RDONLY | O_DIRECTORY);
    CountersSum out;
    for (const std::string& name : sys::list_directory(opened.get(), parent)) {
        uint64_t uid = 0;
        if (name.size() <= start.size() + end.size() || !name.starts_with(start) || !name.ends_with(end) ||
            !parse_number(name.substr(start.size(), name.size() - start.size() - end.size()), UINT32_MAX - 1, uid))
            continue;
        try {
            add_one(out, open_for_sum(opened.get(), name, O_DIRECTORY).get(), static_cast<uid_t>(uid));
        } catch (const Error& error) {
            out.refused.emplace_back(error.what());
        }
    }
    return out;
}

}  // namespace berth
