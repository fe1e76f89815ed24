// What of the host a plan depends on: plain values, looked up beforehand.
#pragma once
#include <string>
#include <vector>

namespace berth::plan {

/// What of the host the plan depends on, looked up beforehand.
struct HostFacts {
    /// Those of `plan::host_paths()` that exist here: default mounts are made of what is there.
    std::vector<std::string> existing;
    std::vector<std::string> readable;  ///< those of masked_paths() that the caller can read
    std::vector<std::string> writable;  ///< those of read_only_paths() that the caller can write to
    std::vector<std::string> groups;  ///< names of the caller's groups, where asks_for_groups()
    bool fuse = false;  ///< the caller may open /dev/fuse
    /// Where /etc/localtime is a link to a file below /usr/share/zoneinfo: the rest of that path ("Europe/Berlin") and
    /// the file's content.
    std::string zone = {}, zone_file = {};
    bool has(const std::string& path) const;
};

/// The host paths whose existence make_plan asks for.
const std::vector<std::string>& host_paths();

/// What of /proc and /sys shows the kernel and its hardware, and what changes them: hidden, and read-only, in a
/// container whose caller could do that.
const std::vector<std::string>& masked_paths();
const std::vector<std::string>& read_only_paths();

}  // namespace berth::plan
