// When a file was written last, and how large it is: what tells that somebody writes to it while it is read.
#pragma once
#include <cstdint>
#include <optional>

namespace berth::squash {

struct FileStamp {
    uint64_t size = 0;
    int64_t seconds = 0;  ///< of the last change of its content, since 1970
    uint32_t nanoseconds = 0;
    bool operator==(const FileStamp&) const = default;
};

/// That of the open file `fd`, asked of the file server where the file is on another machine. Nothing where it cannot
/// be asked for.
std::optional<FileStamp> stamp_of(int fd);

/// Whether the file still has the stamp. What this machine knows of it is enough for a yes; a no is asked for.
bool has_stamp(int fd, const FileStamp& stamp);

}  // namespace berth::squash
