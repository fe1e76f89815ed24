// The store's locks: of a digest that is being fetched, of an image that runs, and between pulls and removals. All are
// flocks, which the kernel frees with their holder.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"
#include "runtime/store/store.hh"

namespace berth::store {

namespace {

constexpr time_t use_resolution = 60;
constexpr const char* between_pulls_and_removals = "locks/pulls";

// f_type of file systems where flock may be known to its own host only, as they are mounted: NFS, SMB, Lustre, GPFS,
// BeeGFS, CephFS.
constexpr std::array<uint32_t, 7> network_file_systems{0x6969,     0x517B,     0xFE534D42, 0x0BD00BD0,
                                                       0x47504653, 0x19830326, 0x00C36400};

/// False while another process holds it. A file system without locks grants everything: that costs duplicate work at
/// most.
bool granted(int fd, int operation) {
    while (::flock(fd, operation) != 0)
        if (errno != EINTR) return errno != EWOULDBLOCK;
    return true;
}

void record_use(int fd) {
    struct stat st {};
    if (::fstat(fd, &st) == 0 && ::time(nullptr) - st.st_mtime >= use_resolution) ::futimens(fd, nullptr);
}

}  // namespace

Fd Store::take_lock(const std::string& path, int operation) const {
    for (;;) {
        Fd file = open_object(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (!granted(file.get(), operation)) return {};
        // A removal may have taken its name away in between; then it locks nothing.
        if (sys::stat_of(file.get(), path).st_nlink > 0) return file;
    }
}

Lock Store::owned_lock(const Digest& digest, int operation) const {
    Fd file = take_lock(cat("locks/", digest.hex()), operation);
    if (!file) return {};
    std::string owner = scratch_name();
    owner.erase(owner.rfind('.'));
    // For the messages of those who wait; without it they know less.
    if (::ftruncate(file.get(), 0) == 0) [[maybe_unused]]
        auto put = ::pwrite(file.get(), owner.data(), owner.size(), 0);
    return Lock(std::move(file));
}

Lock Store::try_lock(const Digest& digest) const { return owned_lock(digest, LOCK_EX | LOCK_NB); }

Lock Store::lock(const Digest& digest) const { return owned_lock(digest, LOCK_EX); }

std::string Store::lock_owner(const Digest& digest) const {
    Fd file = sys::open_if_exists(own_.root(), cat("locks/", digest.hex()), O_RDONLY | O_NOFOLLOW);
    std::string owner = file ? sys::read_all(file.get(), 512, "a lock") : std::string();
    return maker_of(owner);
}

Lease Store::lease(const Digest& digest) const {
    std::string path = cat("leases/", digest.hex());
    try {
        Fd file = take_lock(path, LOCK_SH);
        record_use(file.get());
        return Lease(std::move(file));
    } catch (const SysError&) {
        return {};
    }
}

Lock Store::claim(const Digest& digest) const {
    return Lock(take_lock(cat("leases/", digest.hex()), LOCK_EX | LOCK_NB));
}

Lock Store::hold_off_removals() const {
    try {
        return Lock(take_lock(between_pulls_and_removals, LOCK_SH));
    } catch (const SysError&) {
        // A full disk: whoever needs to write will say so better.
        return {};
    }
}

Lock Store::hold_off_pulls(bool wait) const {
    return Lock(take_lock(between_pulls_and_removals, LOCK_EX | (wait ? 0 : LOCK_NB)));
}

bool Store::locks_are_certain() const {
    struct statfs fs {};
    if (::fstatfs(own_.root(), &fs) != 0) return false;
    if (std::find(network_file_systems.begin(), network_file_systems.end(), static_cast<uint32_t>(fs.f_type)) !=
        network_file_systems.end())
        return false;
    Fd probe = directory("locks");
    return ::flock(probe.get(), LOCK_SH | LOCK_NB) == 0 || errno == EWOULDBLOCK;
}

}  // namespace berth::store
