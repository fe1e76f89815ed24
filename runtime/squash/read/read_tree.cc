#include "runtime/squash/read/read_tree.hh"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/base/text.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/inode_reader.hh"

namespace berth::squash {

namespace {

constexpr uint32_t names_in_run = 256;
constexpr size_t name_limit = 255;
constexpr uint64_t entry_cost = sizeof(Node) + sizeof(Child);

/// A name as it stands in a directory's listing.
struct Listed {
    uint64_t text;
    uint64_t inode;  ///< reference
    uint32_t length;
    uint16_t type;
};

struct __attribute__((packed)) RunHeader {
    uint32_t count, block, number;
};
struct __attribute__((packed)) RunEntry {
    uint16_t offset;
    int16_t number;
    uint16_t type, length;
};

/// Reads the whole tree breadth first: the array of nodes is itself the queue, so the image's depth costs no stack.
class TreeReader {
  public:
    TreeReader(Metadata& metadata, const Super& super, uint32_t layer, const TreeLimits& limits, TreeData& tree)
        : metadata_(metadata),
          file_(metadata.file()),
          super_(super),
          limits_(limits),
          tree_(tree),
          inodes_(metadata, super, layer, tree) {}

    void read();

  private:
    uint32_t node_of(const Listed& listed, uint32_t directory);
    uint32_t add(uint64_t reference, uint32_t directory);
    void read_directory(uint32_t directory);
    void list(const Listing& listing);
    void list_run(Cursor& cursor, uint64_t& left);
    void check_name(std::string_view name) const;
    void sort_names();

    Metadata& metadata_;
    const SquashFile& file_;
    const Super& super_;
    const TreeLimits& limits_;
    TreeData& tree_;
    InodeReader inodes_;
    std::unordered_map<uint64_t, uint32_t> seen_;  ///< inode reference to node: hard links
    std::vector<Listing> listings_;                ///< of each node
    std::vector<Listed> names_;                    ///< of the directory being read
    uint64_t listed_ = 0;                          ///< bytes of all listings read
};

void TreeReader::read() {
    if (super_.inodes > limits_.inodes)
        file_.too_large(cat("it has ", super_.inodes, " inodes, more than the limit of ", limits_.inodes));
    constexpr uint32_t trusted_count = 1 << 20;
    seen_.reserve(std::min(super_.inodes, trusted_count));
    add(super_.root, 0);
    if (!S_ISDIR(tree_.nodes[0].mode)) file_.damaged("its root is no directory");
    unsigned depth = 0;
    size_t level_end = 1;
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
        if (i == level_end) {
            level_end = tree_.nodes.size();
            if (++depth > limits_.depth) file_.too_large(cat("its directories are more than ", limits_.depth, " deep"));
        }
        if (S_ISDIR(tree_.nodes[i].mode)) read_directory(static_cast<uint32_t>(i));
    }
}

uint32_t TreeReader::add(uint64_t reference, uint32_t directory) {
    if (tree_.nodes.size() >= super_.inodes) file_.damaged("it has more inodes than its superblock says");
    Listing listing;
    Node node = inodes_.read(reference, listing);
    node.parent = directory;
    auto number = static_cast<uint32_t>(tree_.nodes.size());
    tree_.nodes.push_back(node);
    listings_.push_back(listing);
    seen_.emplace(reference, number);
    return number;
}

uint32_t TreeReader::node_of(const Listed& listed, uint32_t directory) {
    auto found = seen_.find(listed.inode);
    uint32_t number = found != seen_.end() ? found->second : add(listed.inode, directory);
    const Node& node = tree_.nodes[number];
    if (found != seen_.end() && S_ISDIR(node.mode)) file_.damaged("a directory is in the tree twice");
    constexpr uint32_t types[] = {0, S_IFDIR, S_IFREG, S_IFLNK, S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK};
    if (listed.type >= std::size(types) || types[listed.type] != (node.mode & S_IFMT))
        file_.damaged("a directory and an inode disagree about a type");
    return number;
}

void TreeReader::read_directory(uint32_t directory) {
    list(listings_[directory]);
    if (tree_.children.size() + names_.size() > limits_.inodes)
        file_.too_large(cat("it has more than ", limits_.inodes, " names"));
    sort_names();
    tree_.nodes[directory].first = tree_.children.size();
    tree_.nodes[directory].count = static_cast<uint32_t>(names_.size());
    for (const Listed& listed : names_) {
        uint32_t node = node_of(listed, directory);
        tree_.children.push_back({listed.text, node, listed.length});
    }
}

void TreeReader::list(const Listing& listing) {
    names_.clear();
    if (listing.bytes == 0) return;
    Cursor cursor(metadata_, super_.directory_table, listing.reference);
    for (uint64_t left = listing.bytes; left > 0;) list_run(cursor, left);
    // No writer shares one listing between directories; with it 50 kB would become millions of names.
    listed_ += listing.bytes;
    if (listed_ > metadata_.unpacked()) file_.damaged("its directories share their listings");
}

void TreeReader::list_run(Cursor& cursor, uint64_t& left) {
    auto take = [&](uint64_t bytes) {
        if (bytes > left) file_.damaged("a directory's listing is longer than its size");
        left -= bytes;
    };
    take(sizeof(RunHeader));
    auto header = cursor.take<RunHeader>();
    if (header.count >= names_in_run) file_.damaged("a directory's listing has a wrong count");
    for (uint32_t i = 0; i <= header.count; ++i) {
        take(sizeof(RunEntry));
        auto entry = cursor.take<RunEntry>();
        uint32_t length = entry.length + 1U;
        if (length > name_limit) file_.damaged("a name is longer than 255 bytes");
        take(length);
        metadata_.budget().charge(length + entry_cost);
        uint64_t text = tree_.text.size();
        tree_.text.resize(text + length);
        cursor.read(std::span(tree_.text).subspan(text));
        check_name({&tree_.text[text], length});
        names_.push_back({text, uint64_t{header.block} << 16 | entry.offset, length, entry.type});
    }
}

void TreeReader::check_name(std::string_view name) const {
    if (name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos)
        file_.damaged(cat("it has the impossible name \"", printable(name), "\""));
}

void TreeReader::sort_names() {
    auto view = [&](const Listed& listed) { return std::string_view(tree_.text.data() + listed.text, listed.length); };
    auto before = [&](const Listed& a, const Listed& b) { return view(a) < view(b); };
    if (!std::is_sorted(names_.begin(), names_.end(), before)) std::sort(names_.begin(), names_.end(), before);
    auto twice = std::adjacent_find(names_.begin(), names_.end(),
                                    [&](const Listed& a, const Listed& b) { return view(a) == view(b); });
    if (twice != names_.end()) file_.damaged(cat("a directory has the name \"", printable(view(*twice)), "\" twice"));
}

}  // namespace

Tree read_tree(int fd, const std::string& what, uint32_t layer, LayerInfo& info, const TreeLimits& limits,
               const Extent& place, const PartSums* sums) {
    SquashFile file{fd, what, place.size, place.offset, sums};
    Super super = read_super(file);
    Budget budget(file, limits.metadata_bytes);
    Metadata metadata(file, super.codec, budget);
    auto tree = std::make_unique<TreeData>();
    TreeReader(metadata, super, layer, limits, *tree).read();
    for (Node& node : tree->nodes)
        if (S_ISREG(node.mode)) node.start += place.offset;
    for (Fragment& fragment : tree->fragments) fragment.start += place.offset;
    info.codec = super.codec;
    info.block_size = super.block_size;
    return Tree(std::move(tree));
}

}  // namespace berth::squash
