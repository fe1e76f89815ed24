#include "runtime/images/compare.hh"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t chunk = 1 << 20;
constexpr uint32_t root = 1;  ///< of every index
constexpr uint32_t nothing = 0;
constexpr uint32_t made_directory = S_IFDIR | 0755;  ///< of the parents of added files

class Comparison {
  public:
    Comparison(const ImageView& is, const ImageView& wanted, const std::vector<squash::AddedFile>& added,
               const std::function<void(uint64_t)>& read)
        : is_(is),
          wanted_(wanted),
          added_(added),
          read_(read),
          counterparts_(is.index.inode_count() + size_t{1}, nothing),
          backwards_(wanted.index.inode_count() + size_t{1}, nothing),
          is_bytes_(chunk),
          wanted_bytes_(chunk) {}

    std::string run();

  private:
    struct Pair {
        std::string path;
        uint32_t is = nothing, wanted = nothing;
    };

    std::string compare(const Pair& pair);
    std::string compare_nodes(const Pair& pair, const squash::InodeView& is, const squash::InodeView& wanted);
    std::string compare_names(const Pair& pair);
    std::string compare_xattrs(const Pair& pair) const;
    std::string compare_bytes(const Pair& pair, uint64_t size);
    bool is_known(const Pair& pair, std::string& problem);
    bool is_added(const Pair& pair, const squash::InodeView& is);
    bool leads_to_added(const Pair& pair, const squash::InodeView& is) const;
    long fill(const ImageView& image, uint32_t number, uint64_t at, std::span<char> bytes) const;
    static squash::InodeView inode(const ImageView& image, uint32_t number);

    const ImageView& is_;
    const ImageView& wanted_;
    const std::vector<squash::AddedFile>& added_;
    const std::function<void(uint64_t)>& read_;
    std::vector<Pair> open_;              ///< directories that are to be compared
    std::vector<uint32_t> counterparts_;  ///< by inode of no directory: what it was compared with
    std::vector<uint32_t> backwards_;     ///< the same by inode of `wanted`
    std::vector<char> is_bytes_, wanted_bytes_;
};

squash::InodeView Comparison::inode(const ImageView& image, uint32_t number) {
    auto out = image.index.inode(number);
    if (!out) throw Error(cat("comparing images: the index of one of them has no inode ", number));
    return *out;
}

long Comparison::fill(const ImageView& image, uint32_t number, uint64_t at, std::span<char> bytes) const {
    auto file = image.index.file(number, at, bytes.size());
    if (!file) throw Error(cat("comparing images: the index of one of them has no bytes of inode ", number));
    return image.data.read(*file, at, bytes);
}

std::string Comparison::compare_bytes(const Pair& pair, uint64_t size) {
    for (uint64_t at = 0; at < size; at += chunk) {
        long is = fill(is_, pair.is, at, is_bytes_), wanted = fill(wanted_, pair.wanted, at, wanted_bytes_);
        if (wanted < 0)
            throw SysError(cat("reading ", printable(pair.path, 1024), " of the image"), static_cast<int>(-wanted));
        if (is < 0) return "its bytes cannot be read";
        if (is != wanted || !std::equal(is_bytes_.begin(), is_bytes_.begin() + is, wanted_bytes_.begin()))
            return "has other bytes";
        read_(static_cast<uint64_t>(is));
    }
    return {};
}

std::string Comparison::compare_xattrs(const Pair& pair) const {
    std::vector<std::string_view> names = is_.index.xattr_names(pair.is);
    std::vector<std::string_view> wanted = wanted_.index.xattr_names(pair.wanted);
    std::ranges::sort(names);
    std::ranges::sort(wanted);
    if (names != wanted) return "has other extended attributes";
    for (std::string_view name : names)
        if (is_.index.xattr(pair.is, name) != wanted_.index.xattr(pair.wanted, name))
            return cat("has another ", printable(name));
    return {};
}

/// A file has the same names as the one that it stands for. True where the two have been compared by another name.
bool Comparison::is_known(const Pair& pair, std::string& problem) {
    uint32_t& there = counterparts_[pair.is];
    uint32_t& back = backwards_[pair.wanted];
    if (there == nothing && back == nothing) {
        there = pair.wanted, back = pair.is;
        return false;
    }
    if (there != pair.wanted || back != pair.is) problem = "has other hard links";
    return true;
}

std::string Comparison::compare_nodes(const Pair& pair, const squash::InodeView& is, const squash::InodeView& wanted) {
    if ((is.mode & S_IFMT) != (wanted.mode & S_IFMT)) return "is a file of another kind";
    if (is.mode != wanted.mode) return "has another mode";
    if (is.uid != wanted.uid || is.gid != wanted.gid) return "has another owner";
    if (is.mtime != wanted.mtime) return "has another time of change";
    if (std::string problem = compare_xattrs(pair); !problem.empty()) return problem;
    if (S_ISDIR(is.mode)) return {};
    if (std::string links; is_known(pair, links)) return links;
    if (S_ISLNK(is.mode) && is_.index.symlink_target(pair.is) != wanted_.index.symlink_target(pair.wanted))
        return "leads to another place";
    if (!S_ISREG(is.mode)) return {};
    if (is.size != wanted.size) return cat("has ", is.size, " bytes instead of ", wanted.size);
    return compare_bytes(pair, is.size);
}

bool Comparison::is_added(const Pair& pair, const squash::InodeView& is) {
    auto file = std::ranges::find_if(added_, [&](const squash::AddedFile& one) { return one.path == pair.path; });
    if (file == added_.end() || is.mode != (S_IFREG | file->mode) || is.uid != 0 || is.gid != 0 ||
        is.size != file->content.size() || !is_.index.xattr_names(pair.is).empty())
        return false;
    std::string bytes(file->content.size(), '\0');
    return bytes.empty() || (fill(is_, pair.is, 0, bytes) == static_cast<long>(bytes.size()) && bytes == file->content);
}

/// A directory that was made for an added file, since the image has none.
bool Comparison::leads_to_added(const Pair& pair, const squash::InodeView& is) const {
    return pair.wanted == nothing && is.mode == made_directory && is.uid == 0 && is.gid == 0 &&
           std::ranges::any_of(added_, [&](const auto& one) { return one.path.starts_with(pair.path + '/'); });
}

std::string Comparison::compare(const Pair& pair) {
    squash::InodeView is = inode(is_, pair.is);
    if (is_added(pair, is)) return {};
    if (leads_to_added(pair, is)) return open_.push_back(pair), "";
    if (pair.wanted == nothing) return "is not in the image";
    std::string problem = compare_nodes(pair, is, inode(wanted_, pair.wanted));
    if (problem.empty() && S_ISDIR(is.mode)) open_.push_back(pair);
    return problem;
}

/// The names in a directory.
std::string Comparison::compare_names(const Pair& pair) {
    auto path_of = [&](std::string_view name) { return cat(pair.path, pair.path.empty() ? "" : "/", name); };
    uint32_t count = is_.index.entry_count(pair.is), others = 0;
    if (pair.wanted != nothing) others = wanted_.index.entry_count(pair.wanted);
    for (uint32_t i = 0; i < others; ++i) {
        auto entry = wanted_.index.entry(pair.wanted, i);
        if (entry && is_.index.lookup(pair.is, entry->name) == nothing)
            return cat(printable(path_of(entry->name), 4096), ": is missing");
    }
    for (uint32_t i = 0; i < count; ++i) {
        auto entry = is_.index.entry(pair.is, i);
        if (!entry) throw Error("comparing images: the index of one of them is damaged");
        uint32_t wanted = pair.wanted == nothing ? nothing : wanted_.index.lookup(pair.wanted, entry->name);
        Pair child{path_of(entry->name), entry->inode, wanted};
        if (std::string problem = compare(child); !problem.empty())
            return cat(printable(child.path, 4096), ": ", problem);
    }
    return {};
}

std::string Comparison::run() {
    if (std::string problem = compare({"", root, root}); !problem.empty()) return cat("/: ", problem);
    while (!open_.empty()) {
        Pair pair = std::move(open_.back());
        open_.pop_back();
        if (std::string problem = compare_names(pair); !problem.empty()) return problem;
    }
    return {};
}

}  // namespace

std::string first_difference(const ImageView& is, const ImageView& wanted, const std::vector<squash::AddedFile>& added,
                             const std::function<void(uint64_t bytes)>& read) {
    return Comparison(is, wanted, added, read).run();
}

}  // namespace berth
