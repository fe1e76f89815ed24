#include "runtime/store/shared.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index_format.hh"

namespace berth::store {

namespace {

// A layer's seal ends in a line of so many bytes, with a hash of all the file.
constexpr uint64_t seal_line = 128;

/// Why the folder `at` on the way to a store lets others exchange what is in it; empty: it does not.
std::string parent_problem(const struct stat& st, uid_t owner) {
    if (st.st_uid != owner && st.st_uid != 0) return wrong_owner(st.st_uid, owner);
    if ((st.st_mode & writable_by_others) != 0 && (st.st_mode & S_ISVTX) == 0)
        return "can be written by others, who could put another store in place of this one; run chmod go-w on it";
    return {};
}

/// An empty Fd when it is not there.
Fd step_into(int at, const std::string& name, const std::string& path, const std::string& whole) {
    Fd out = sys::try_open_at(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (out || errno == ENOENT) return out;
    int number = errno;
    struct stat st {};
    if (::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        throw Error(cat("shared store ", printable(whole, 4096), ": ", printable(path, 4096),
                        " is a symlink; write the folder's own path in store.shared"));
    throw SysError(cat("opening the shared store ", printable(path, 4096)), number);
}

void check_root(int fd, const std::string& path, uid_t owner) {
    struct stat st = sys::stat_of(fd, path);
    std::string problem = shared_object_problem(st, owner);
    if (!problem.empty()) throw Error(cat("shared store ", printable(path, 4096), ": ", problem));
}

}  // namespace

std::optional<Reader> open_shared(const std::string& path, std::optional<uid_t> owner) {
    if (!owner)
        throw Error(cat("shared store ", printable(path, 4096),
                        ": store.shared_owner names no account of this node; write the number of its uid"));
    Fd at = sys::open_file("/", O_PATH | O_DIRECTORY);
    std::string done;
    for (const std::string& name : split(path, '/')) {
        if (name.empty()) continue;
        if (std::string problem = parent_problem(sys::stat_of(at.get(), path), *owner); !problem.empty())
            throw Error(cat("shared store ", printable(path, 4096), ": the folder ",
                            printable(done.empty() ? "/" : done, 4096), " on the way to it ", problem));
        done += "/" + name;
        at = step_into(at.get(), name, done, path);
        if (!at) return std::nullopt;
    }
    check_root(at.get(), path, *owner);
    return Reader(path, std::move(at), *owner);
}

std::string problem_in_shared(const Reader& store) try {
    auto names = [&](const std::string& folder) {
        return sys::list_directory(store.directory(folder).get(), printable(store.shown(folder), 4096));
    };
    std::vector<std::string> objects;
    for (const std::string& layer : names("layers")) objects.push_back("layers/" + layer);
    for (const std::string& image : names("images"))
        for (const std::string& file : names("images/" + image)) objects.push_back(cat("images/", image, "/", file));
    // An object that goes meanwhile is not here, which is no problem of its own.
    for (const std::string& object : objects) Fd looked_at = store.find(object, O_RDONLY);
    return {};
} catch (const Error& problem) {
    return problem.what();
}

std::string shared_layer_name(int fd, const std::string& file) {
    auto size = static_cast<uint64_t>(sys::stat_of(fd, file).st_size);
    char tail[seal_line] = {};
    uint64_t length = std::min(size, seal_line);
    if (!sys::pread_exact(fd, {tail, length}, size - length, file)) throw SysError(cat("reading ", file), EIO);
    uint64_t hash = squash::format::hash({tail, length}) ^ size;
    char text[20];
    std::snprintf(text, sizeof text, "@%016llx", static_cast<unsigned long long>(hash));
    return file + text;
}

std::string file_of_shared_layer(const std::string& name) {
    size_t at = name.rfind('@');
    return at == name.npos ? std::string() : name.substr(0, at);
}

}  // namespace berth::store
