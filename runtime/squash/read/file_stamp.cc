#include "runtime/squash/read/file_stamp.hh"

#include <fcntl.h>
#include <sys/stat.h>

namespace berth::squash {

namespace {

std::optional<FileStamp> ask(int fd, int how) {
    struct statx st {};
    if (::statx(fd, "", AT_EMPTY_PATH | how, STATX_SIZE | STATX_MTIME, &st) != 0) return std::nullopt;
    return FileStamp{st.stx_size, st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec};
}

}  // namespace

std::optional<FileStamp> stamp_of(int fd) { return ask(fd, AT_STATX_SYNC_AS_STAT); }

bool has_stamp(int fd, const FileStamp& stamp) { return ask(fd, AT_STATX_DONT_SYNC) == stamp || stamp_of(fd) == stamp; }

}  // namespace berth::squash
