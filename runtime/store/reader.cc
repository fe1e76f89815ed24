#include "runtime/store/reader.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"

namespace berth::store {

namespace {

constexpr size_t record_limit = 4096;

bool is_absent(const SysError& error) { return error.number() == ENOENT || error.number() == ENOTDIR; }

/// The `KEY VALUE` lines of a file; none when it is not there.
std::map<std::string, std::string> read_record(const Fd& file, const std::string& path) {
    std::map<std::string, std::string> out;
    if (!file) return out;
    for (const std::string& line : split(sys::read_all(file.get(), record_limit, path), '\n'))
        if (size_t blank = line.find(' '); blank != line.npos) out[line.substr(0, blank)] = line.substr(blank + 1);
    return out;
}

}  // namespace

std::string wrong_owner(uid_t is, uid_t wanted) {
    return cat("belongs to uid ", is, ", not to store.shared_owner (uid ", wanted, ") or root");
}

std::string shared_object_problem(const struct stat& st, uid_t owner) {
    if (st.st_uid != owner && st.st_uid != 0)
        return cat(wrong_owner(st.st_uid, owner), "; correct store.shared_owner, or let root run chown on it");
    if ((st.st_mode & writable_by_others) != 0)
        return "can be written by others, who could change images; let its owner run chmod go-w on it";
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return "is neither a file nor a folder; remove it";
    return {};
}

Fd Reader::find(const std::string& path, int flags) const {
    try {
        return owner_ ? find_checked(path, flags) : sys::open_beneath(root_.get(), path, flags);
    } catch (const SysError& error) {
        if (is_absent(error)) return {};
        if (error.number() == EXDEV && owner_)
            throw Error(cat("shared store ", printable(shown(path), 4096),
                            ": is on another file system than its store; unmount what lies over it"));
        throw SysError(cat("opening ", printable(shown(path), 4096)), error.number());
    }
}

/// A folder that others could write to could have its objects exchanged, whosever they are: each is looked at.
Fd Reader::find_checked(const std::string& path, int flags) const {
    // A pipe must not be waited for; openat2 takes no such flag with O_PATH.
    if ((flags & O_PATH) == 0) flags |= O_NONBLOCK | O_NOCTTY;
    Fd folder;
    int at = root_.get();
    size_t from = 0;
    for (size_t slash; (slash = path.find('/', from)) != path.npos; from = slash + 1) {
        folder = sys::open_beneath_here(at, path.substr(from, slash - from), O_PATH | O_DIRECTORY);
        check(folder.get(), path.substr(0, slash));
        at = folder.get();
    }
    Fd out = sys::open_beneath_here(at, path.substr(from), flags);
    check(out.get(), path);
    return out;
}

void Reader::check(int fd, const std::string& path) const {
    struct stat st = sys::stat_of(fd, shown(path));
    std::string problem = shared_object_problem(st, *owner_);
    if (!problem.empty()) throw Error(cat("shared store ", printable(shown(path), 4096), ": ", problem));
}

Fd Reader::directory(const std::string& name) const {
    if (Fd out = find(name, O_RDONLY | O_DIRECTORY)) return out;
    throw SysError(cat("opening ", printable(shown(name), 4096)), ENOENT);
}

std::optional<TagRecord> Reader::find_tag(const plan::Reference& reference) const {
    if (reference.tag.empty()) return std::nullopt;
    std::string path = cat(refs_directory(reference), "/", tag_file(reference));
    auto record = read_record(find(path, O_RDONLY), path);
    auto digest = Digest::parse(record["digest"]);
    if (!digest) return std::nullopt;
    TagRecord out{*digest, 0, record["etag"], record["source"]};
    uint64_t time = 0;
    if (parse_number(record["time"], INT64_MAX, time)) out.time = static_cast<int64_t>(time);
    return out;
}

std::optional<Digest> Reader::find_image_index(const std::string& name) const {
    std::string path = cat("lists/", name);
    return Digest::parse(read_record(find(path, O_RDONLY), path)["image"]);
}

bool Reader::has_manifest(const Digest& image) const {
    return bool(find(cat("images/", image.hex()), O_PATH | O_DIRECTORY));
}

Fd Reader::find_document(const Digest& image, const std::string& file) const {
    return find(cat("images/", image.hex(), "/", file), O_RDONLY);
}

std::string Reader::layer_file(const Digest& diff_id) const {
    std::string name = layer_file_name(diff_id), former = former_layer_file_name(diff_id);
    auto is_here = [&](const std::string& file) { return bool(find(cat("layers/", file), O_PATH)); };
    return !is_here(name) && is_here(former) ? former : name;
}

Fd Reader::find_layer(const std::string& name) const {
    if (Fd out = find(cat("layers/", name), O_RDONLY)) return out;
    // An index outlives a layer that is fetched again, and may come to a name that its index does not know.
    std::string other = other_layer_file_name(name);
    return other.empty() ? Fd() : find(cat("layers/", other), O_RDONLY);
}

}  // namespace berth::store
