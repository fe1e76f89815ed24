#include "runtime/store/retired.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/scratch.hh"

namespace berth::store {

namespace {

constexpr std::string_view retired_ending = ".gone";

[[noreturn]] void fail(const Store& store, const std::string& folder, const std::string& name, int number) {
    throw SysError(cat("removing ", printable(cat(store.path(), "/", folder, "/", name), 4096)), number);
}

}  // namespace

void remove_object(const Store& store, const std::string& folder, const std::string& name) {
    Fd tmp = store.directory("tmp"), from = store.directory(folder);
    std::string scratch = scratch_name();
    if (::renameat(from.get(), name.c_str(), tmp.get(), scratch.c_str()) == 0)
        remove_scratch(tmp.get(), scratch);
    else if (errno != ENOENT)
        fail(store, folder, name, errno);
}

bool is_retired(const std::string& name) { return name.ends_with(retired_ending); }

void retire(const Store& store, const std::string& folder, const std::string& name) {
    // Another one of the same name may have been retired before, and be open still.
    std::string retired = cat(name, ".", scratch_name(), retired_ending);
    Fd at = store.directory(folder);
    // Its age first: between the two it must not look old.
    ::utimensat(at.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    if (::renameat(at.get(), name.c_str(), at.get(), retired.c_str()) != 0 && errno != ENOENT)
        fail(store, folder, name, errno);
}

RetiredObjects remove_retired(const Store& store, int64_t age, int64_t now, bool dry) {
    RetiredObjects out;
    for (const char* folder : {"images", "layers"}) {
        Fd at = store.directory(folder);
        for (const std::string& name : sys::list_directory(at.get(), printable(cat(store.path(), "/", folder), 4096))) {
            struct stat st {};
            if (!is_retired(name) || ::fstatat(at.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 ||
                now - st.st_mtime < age)
                continue;
            if (!dry) remove_object(store, folder, name);
            if (!S_ISREG(st.st_mode)) continue;
            ++out.layers;
            out.bytes += static_cast<uint64_t>(st.st_blocks) * 512;
        }
    }
    return out;
}

}  // namespace berth::store
