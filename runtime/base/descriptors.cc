#include "runtime/base/descriptors.hh"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/listing.hh"
#include "runtime/base/new_calls.hh"

namespace berth::sys {

namespace {

/// The layout of a record of getdents64(2).
struct DirectoryRecord {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

void close_open_ones(int listing, unsigned first, unsigned last) {
    alignas(DirectoryRecord) char records[2048];
    long size = 0;
    // The kernel goes on at the number behind the last one it told, so that closing does not disturb it.
    while ((size = ::syscall(SYS_getdents64, listing, records, sizeof records)) > 0)
        for (long at = 0; at < size;) {
            const auto* record = reinterpret_cast<const DirectoryRecord*>(records + at);
            at += record->size;
            if (record->name[0] == '.') continue;
            auto number = static_cast<unsigned>(std::strtoul(record->name, nullptr, 10));
            if (number >= first && number <= last && number != static_cast<unsigned>(listing))
                ::close(static_cast<int>(number));
        }
}

void close_one_by_one(unsigned first, unsigned last) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
    for (unsigned number = first; number <= last && number < limit.rlim_cur; ++number)
        ::close(static_cast<int>(number));
}

}  // namespace

bool close_range(unsigned first, unsigned last) {
    if (::syscall(SYS_close_range, first, last, 0U) == 0) return true;
    if (errno != ENOSYS) return false;
    int listing = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (listing < 0) {
        close_one_by_one(first, last);
        return true;
    }
    close_open_ones(listing, first, last);
    ::close(listing);
    return true;
}

void close_descriptors_except(std::vector<int> kept) {
    std::sort(kept.begin(), kept.end());
    auto close_between = [](unsigned first, unsigned last) {
        if (first <= last && !close_range(first, last))
            throw SysError("closing descriptors that a container must not have");
    };
    unsigned next = STDERR_FILENO + 1;
    for (int fd : kept) {
        if (fd < static_cast<int>(next)) continue;
        auto number = static_cast<unsigned>(fd);
        close_between(next, number - 1);
        next = number + 1;
    }
    close_between(next, ~0U);
}

void point_at_null(std::initializer_list<int> numbers, int flags) {
    Fd null = try_open_at(AT_FDCWD, "/dev/null", O_RDWR);
    if (!null) throw SysError("opening /dev/null");
    // Where a standard stream was closed, it has one of the numbers itself: out of the way first.
    Fd apart(::fcntl(null.get(), F_DUPFD_CLOEXEC, *std::max_element(numbers.begin(), numbers.end()) + 1));
    if (!apart) throw SysError("opening /dev/null");
    null.reset();
    for (int number : numbers)
        if (::dup3(apart.get(), number, flags) < 0) throw SysError("replacing a standard stream by /dev/null");
}

std::vector<int> descriptors_kept_by_exec() {
    Listing listing = open_listing("/proc/self/fd");
    if (!listing) throw SysError("looking for open descriptors in /proc/self/fd");
    std::vector<int> out;
    while (const dirent* entry = ::readdir(listing.get())) {
        if (entry->d_name[0] == '.') continue;
        int fd = std::stoi(entry->d_name);
        if (int flags = ::fcntl(fd, F_GETFD); fd > STDERR_FILENO && flags >= 0 && (flags & FD_CLOEXEC) == 0)
            out.push_back(fd);
    }
    return out;
}

void prepare_to_join(std::vector<int> kept) {
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        throw SysError("closing the process to others before it enters a container");
    close_descriptors_except(std::move(kept));
}

}  // namespace berth::sys
