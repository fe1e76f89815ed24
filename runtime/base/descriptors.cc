#include "runtime/base/descriptors.hh"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/listing.hh"

namespace berth::sys {

void close_descriptors_except(std::vector<int> kept) {
    std::sort(kept.begin(), kept.end());
    auto close_range = [](unsigned first, unsigned last) {
        if (first <= last && ::syscall(SYS_close_range, first, last, 0U) != 0)
            throw SysError("closing descriptors before a container is entered");
    };
    unsigned next = STDERR_FILENO + 1;
    for (int fd : kept) {
        if (fd < static_cast<int>(next)) continue;
        auto number = static_cast<unsigned>(fd);
        close_range(next, number - 1);
        next = number + 1;
    }
    close_range(next, ~0U);
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
