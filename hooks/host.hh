// What hooks may look at of the node. Tests put a folder with fake devices in its place.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::hooks {

/// A character device's numbers.
struct DeviceNumber {
    unsigned major = 0, minor = 0;
    bool operator==(const DeviceNumber&) const = default;
};

/// Whether this process could open something: the device cgroup counts, as do modes and groups. Nothing is opened, for
/// that can initialise a device.
enum class Access { allowed, denied, missing };

/// What a program has printed, or why there is nothing.
struct ProgramOutput {
    std::optional<std::string> text;
    std::string why;  ///< "it gave no answer within 20 s", or its own line
};

/// The node's file system below a root directory. Paths are absolute and seen from that root; links are followed
/// without leaving it.
class Host {
  public:
    /// `root` is "" for the node itself. Throws SysError when it is no directory.
    explicit Host(std::string root = {});
    virtual ~Host();

    /// Where `path` lies for a mount's source.
    std::string real(const std::string& path) const { return root_ + path; }

    bool exists(const std::string& path) const;
    /// The content of a small file (at most 4 MiB); nothing when it is missing or cannot be read.
    std::optional<std::string> read(const std::string& path) const;
    /// Up to `size` bytes of any file at `offset`; fewer at the end, none when it is missing or cannot be read.
    std::string read_part(const std::string& path, uint64_t offset, size_t size) const;
    /// Whether a file's first bytes are these; false when it is missing or cannot be read.
    bool begins_with(const std::string& path, std::string_view bytes) const;
    /// The names in a directory, sorted; none when it is missing or cannot be read.
    std::vector<std::string> list(const std::string& path) const;
    /// The path of an object with all links followed; nothing when it is missing.
    std::optional<std::string> resolved(const std::string& path) const;
    /// What a symlink says; nothing when it is missing or none.
    std::optional<std::string> link_target(const std::string& path) const;

    /// Nothing for what is missing or no character device.
    virtual std::optional<DeviceNumber> device(const std::string& path) const;
    /// For reading and writing, or for reading only.
    virtual Access access(const std::string& path, bool read_only = false) const;
    /// Whether this process is in a group.
    virtual bool has_group(unsigned group) const;
    /// RLIMIT_MEMLOCK of this process, in bytes; UINT64_MAX: unlimited.
    virtual uint64_t lockable_memory() const;
    /// What `berth` prints with these words, run as a program of its own: a driver's library may hang, or do to its
    /// process what it likes.
    virtual ProgramOutput ask(const std::vector<std::string>& words, std::chrono::seconds timeout) const;

  private:
    Fd open(const std::string& path, int flags) const;

    std::string root_;
    Fd directory_;
    std::string real_root_;  ///< with links followed; empty for the node itself
};

}  // namespace berth::hooks
