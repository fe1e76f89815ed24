#include "runtime/oci/layer/unpack.hh"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

constexpr size_t path_limit = 4096;      // PATH_MAX
// PATH_MAX without its NUL: the longest symlink that Linux makes and squashfs serves
constexpr size_t target_limit = 4095;
constexpr size_t component_limit = 255;  // NAME_MAX
constexpr size_t depth_limit = 1024;
constexpr size_t xattr_name_limit = 255;  // XATTR_NAME_MAX
constexpr size_t xattr_value_limit = 64 * 1024;

constexpr std::string_view whiteout_prefix = ".wh.", meta_prefix = ".wh..wh.", opaque_name = ".wh..wh..opq";
constexpr std::string_view aufs_files = ".wh..wh.plnk";

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
    throw Error(cat("the tar entry ", printable(name), ": ", why));
}

std::string joined(const std::vector<std::string_view>& names) {
    std::string out;
    for (std::string_view name : names) {
        if (!out.empty()) out += '/';
        out += name;
    }
    return out;
}

/// A file of AUFS's folder of files with several names, or a name for one.
bool is_shared_file_of_aufs(const TarEntry& entry, std::string_view path) {
    if (entry.type != TarEntry::Type::file && entry.type != TarEntry::Type::hardlink) return false;
    return path.starts_with(aufs_files) && path.find('/') == aufs_files.size() && path.rfind('/') == aufs_files.size();
}

/// Of the archive's xattrs only these mean anything for data that runs without privileges.
bool is_kept_xattr(std::string_view name) {
    return name.starts_with("user.") && !name.starts_with("user.overlay.");
}

/// Linux gives user.* to files and directories alone.
bool may_have_xattrs(TarEntry::Type type) {
    return type == TarEntry::Type::file || type == TarEntry::Type::directory;
}

}  // namespace

std::string normalised_name(std::string_view name) {
    if (name.empty()) throw Error("a tar entry has an empty name");
    if (name.size() > path_limit) refuse(name, cat("its name has ", name.size(), " bytes, the limit is ", path_limit));
    std::vector<std::string_view> kept;
    for (std::string_view rest = name; !rest.empty();) {
        size_t slash = rest.find('/');
        std::string_view part = rest.substr(0, slash);
        rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
        if (part.empty() || part == ".") continue;
        if (part.size() > component_limit)
            refuse(name, cat("a part of its name has ", part.size(), " bytes, the limit is ", component_limit));
        if (part != "..") {
            kept.push_back(part);
        } else if (kept.empty()) {
            refuse(name, "its name leads out of the image");
        } else {
            kept.pop_back();
        }
        if (kept.size() > depth_limit) refuse(name, cat("it lies deeper than ", depth_limit, " directories"));
    }
    return joined(kept);
}

NameKind kind_of_name(std::string_view path) {
    for (std::string_view rest = path; !rest.empty();) {
        size_t slash = rest.find('/');
        std::string_view part = rest.substr(0, slash);
        bool is_last = slash == std::string_view::npos;
        rest = is_last ? std::string_view{} : rest.substr(slash + 1);
        if (!part.starts_with(whiteout_prefix)) continue;
        if (is_last && part == opaque_name) return NameKind::whiteout;
        if (part.starts_with(meta_prefix)) return NameKind::ignored;
        if (!is_last) refuse(path, "it lies below a whiteout");
        if (part == ".wh." || part == ".wh.." || part == ".wh...")
            refuse(path, "it is a whiteout of nothing that can be removed");
        return NameKind::whiteout;
    }
    return NameKind::plain;
}

void Unpacker::entry(const TarEntry& entry) {
    in_file_ = false;
    count(entry);
    std::string path = normalised_name(entry.name);
    NameKind kind = kind_of_name(path);
    if (kind == NameKind::ignored && !is_shared_file_of_aufs(entry, path)) return leave_out(path);
    if (entry.type == TarEntry::Type::character || entry.type == TarEntry::Type::block) {
        ++skipped_devices_;
        return leave_out(placed(entry, path));
    }
    if (path.empty() && entry.type != TarEntry::Type::directory)
        refuse(entry.name, "it would replace the root directory");
    path = placed(entry, path);
    left_out_.erase(path);
    if (kind != NameKind::whiteout) return add(entry, path);
    writer_.begin_file(path, {.mode = 0});
    writer_.end_file();
}

/// The memory of these names counts like that of the tree.
void Unpacker::leave_out(const std::string& path) {
    constexpr uint64_t cost = 96;  // of a node of the set beside the name
    if (left_out_.insert(path).second) left_out_bytes_ += path.size() + cost;
}

void Unpacker::finish() { writer_.remove(aufs_files); }

void Unpacker::count(const TarEntry& entry) {
    if (++entries_ > limits_.entries) throw Error(cat("the layer has more than ", limits_.entries, " entries"));
    if (writer_.memory() + left_out_bytes_ > limits_.tree_bytes)
        refuse(entry.name,
               cat("with it the names of the layer take more than ", human_bytes(limits_.tree_bytes), " of memory"));
    if (entry.type != TarEntry::Type::file) return;
    if (entry.size > limits_.unpacked_bytes - file_bytes_)
        refuse(entry.name, cat("with its ", entry.size, " bytes the layer unpacks to more than ",
                               human_bytes(limits_.unpacked_bytes)));
    file_bytes_ += entry.size;
}

/// `path` with its symlinked parents followed. The limits count again, or links into links would build any depth.
std::string Unpacker::placed(const TarEntry& entry, const std::string& path) const {
    std::string out = writer_.resolved(path);
    auto depth = static_cast<size_t>(std::count(out.begin(), out.end(), '/'));
    if (out.size() > path_limit || depth >= depth_limit)
        refuse(entry.name, "its name is too long once the symlinks in it are followed");
    return out;
}

void Unpacker::add(const TarEntry& entry, const std::string& path) {
    switch (entry.type) {
        case TarEntry::Type::directory:
            return writer_.add_directory(path, attributes(entry));
        case TarEntry::Type::fifo:
            return writer_.add_special(path, attributes(entry), S_IFIFO);
        case TarEntry::Type::hardlink: {
            std::string target = placed(entry, normalised_name(entry.link));
            return left_out_.contains(target) ? leave_out(path) : writer_.add_hardlink(path, target);
        }
        case TarEntry::Type::symlink:
            if (entry.link.empty()) refuse(entry.name, "it is a symlink without a target");
            if (entry.link.size() > target_limit)
                refuse(entry.name, cat("its target has ", entry.link.size(), " bytes, the limit is ", target_limit));
            return writer_.add_symlink(path, attributes(entry), entry.link);
        case TarEntry::Type::file:
            writer_.begin_file(path, attributes(entry), entry.size);
            in_file_ = true;
            return;
        case TarEntry::Type::character:
        case TarEntry::Type::block:
            return;
    }
}

squash::Attributes Unpacker::attributes(const TarEntry& entry) {
    squash::Attributes out{.mode = entry.mode, .uid = entry.uid, .gid = entry.gid, .mtime = entry.mtime};
    if (!may_have_xattrs(entry.type)) return out;
    for (const auto& [name, value] : entry.xattrs) {
        if (!is_kept_xattr(name)) continue;
        if (name.size() == std::string_view("user.").size() || name.size() > xattr_name_limit ||
            value.size() > xattr_value_limit)
            refuse(entry.name,
                   cat("Linux allows no extended attribute ", printable(name, 64), " of ", value.size(), " bytes"));
        xattr_bytes_ += name.size() + value.size();
        if (xattr_bytes_ > limits_.xattr_bytes)
            refuse(entry.name, cat("the extended attributes of the layer exceed ", human_bytes(limits_.xattr_bytes)));
        out.xattrs.emplace(name, value);
    }
    return out;
}

void Unpacker::data(std::string_view bytes) {
    if (in_file_) writer_.append(bytes);
}

void Unpacker::zeros(uint64_t size) {
    if (in_file_) writer_.append_zeros(size);
}

void Unpacker::end_entry() {
    if (in_file_) writer_.end_file();
    in_file_ = false;
}

}  // namespace berth::oci
