#include "spank/user_folders.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "spank/owned_directory.hh"

namespace berth::spank {

namespace {

/// Sites that installed berth when its users made their folders themselves have mode 1777.
bool is_roots(int folder) {
    struct stat info;
    return fstat(folder, &info) == 0 && info.st_uid == geteuid() &&
           ((info.st_mode & 022) == 0 || (info.st_mode & S_ISVTX) != 0);
}

}  // namespace

void make_user_folders(const std::string& parent, uid_t uid, gid_t gid) {
    Fd folder(open(parent.c_str(), directory_flags));
    if (!folder || !is_roots(folder.get())) return;
    for (const char* purpose : {"", ".containers", ".counters"}) try {
            std::string name = cat(uid, purpose);
            (void)owned_directory(folder.get(), name, cat(parent, "/", name), {uid, gid, 0700});
        } catch (const Error&) {
            // See the header.
        }
}

}  // namespace berth::spank
