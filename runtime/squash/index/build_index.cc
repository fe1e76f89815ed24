#include <sys/stat.h>

#include <limits>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

using namespace format;

template <typename Record>
void put(std::string& section, const Record& record) {
    static_assert(std::is_trivially_copyable_v<Record>);
    section.append(reinterpret_cast<const char*>(&record), sizeof record);
}

void put_list(std::string& section, const std::vector<std::string>& list) {
    put(section, static_cast<uint32_t>(list.size()));
    for (const std::string& text : list) {
        put(section, static_cast<uint32_t>(text.size()));
        section += text;
    }
}

class IndexBuilder {
  public:
    explicit IndexBuilder(const TreeData& tree) : tree_(tree) {}
    std::string build(const std::vector<LayerInfo>& layers, const plan::ImageConfig& config);

  private:
    void add_names();
    void add_xattrs();
    void add_inodes();
    void add_blocks();
    void add_layers(const std::vector<LayerInfo>& layers);
    void add_config(const std::vector<LayerInfo>& layers, const plan::ImageConfig& config);
    InodeRecord record_of(const Node& node);
    Header header() const;
    std::string assemble() const;

    const TreeData& tree_;
    std::string sections_[section_count];
    std::vector<uint32_t> links_;       ///< of each node
    std::vector<uint32_t> xattr_sets_;  ///< 1 + offset of each set
};

void IndexBuilder::add_names() {
    links_.assign(tree_.nodes.size(), 0);
    sections_[entries].reserve(tree_.children.size() * sizeof(EntryRecord));
    sections_[names].reserve(tree_.text.size() + tree_.children.size());
    for (const Child& child : tree_.children) {
        std::string& section = sections_[names];
        put(sections_[entries], EntryRecord{static_cast<uint32_t>(section.size()), child.node + 1});
        section += static_cast<char>(child.length);
        section += tree_.name(child);
        ++links_[child.node];
        // A directory is also linked by its own "." and, from below, by each "..".
        const Node& node = tree_.nodes[child.node];
        if (S_ISDIR(node.mode)) {
            ++links_[child.node];
            ++links_[node.parent];
        }
    }
    links_[0] += 2;
}

void IndexBuilder::add_xattrs() {
    xattr_sets_.assign(1, 0);
    std::string& section = sections_[xattrs];
    for (size_t i = 1; i < tree_.xattr_sets.size(); ++i) {
        xattr_sets_.push_back(static_cast<uint32_t>(section.size() + 1));
        put(section, static_cast<uint32_t>(tree_.xattr_sets[i].size()));
        for (const auto& [name, value] : tree_.xattr_sets[i]) {
            put(section, static_cast<uint16_t>(name.size()));
            put(section, static_cast<uint32_t>(value.size()));
            section += name;
            section += value;
        }
    }
}

InodeRecord IndexBuilder::record_of(const Node& node) {
    InodeRecord record{};
    record.mode = node.mode;
    record.uid = node.uid;
    record.gid = node.gid;
    record.mtime = node.mtime;
    record.size = node.size;
    record.xattrs = xattr_sets_[node.xattrs];
    switch (node.mode & S_IFMT) {
        case S_IFREG:
            record.a = node.layer;
            record.b = node.start;
            record.c = node.first;
            record.d = node.fragment == Node::none ? no_fragment : node.fragment;
            record.e = node.fragment_offset;
            break;
        case S_IFDIR:
            record.a = node.parent + 1;
            record.b = node.first;
            record.c = node.count;
            break;
        case S_IFLNK:
            record.b = sections_[names].size();
            sections_[names] += tree_.target(node);
            break;
        default:
            record.a = node.rdev;
    }
    return record;
}

void IndexBuilder::add_inodes() {
    sections_[inodes].reserve(tree_.nodes.size() * sizeof(InodeRecord));
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
        InodeRecord record = record_of(tree_.nodes[i]);
        record.nlink = links_[i];
        put(sections_[inodes], record);
    }
}

void IndexBuilder::add_blocks() {
    sections_[blocks].assign(reinterpret_cast<const char*>(tree_.blocks.data()),
                             tree_.blocks.size() * sizeof(uint32_t));
    uint64_t sum = 0;
    for (size_t i = 0; i < tree_.blocks.size(); ++i) {
        if (i % sum_interval == 0) put(sections_[sums], sum);
        sum += tree_.blocks[i] & block_size_mask;
    }
    for (uint32_t i = 0; i < tree_.fragments.size(); ++i)
        put(sections_[fragments],
            FragmentRecord{tree_.fragments[i].start, tree_.fragments[i].size, 0, tree_.fragment_hash(i)});
    sections_[hashes].assign(reinterpret_cast<const char*>(tree_.hashes.data()),
                             tree_.hashes.size() * sizeof(uint64_t));
}

void IndexBuilder::add_layers(const std::vector<LayerInfo>& layer_list) {
    for (const LayerInfo& layer : layer_list)
        put(sections_[layers], LayerRecord{static_cast<uint16_t>(layer.codec), 0, layer.block_size});
}

void IndexBuilder::add_config(const std::vector<LayerInfo>& layer_list, const plan::ImageConfig& image) {
    std::string& section = sections_[format::config];
    put(section, static_cast<uint32_t>(layer_list.size()));
    for (const LayerInfo& layer : layer_list) {
        put(section, static_cast<uint32_t>(layer.name.size()));
        section += layer.name;
    }
    put_list(section, image.env);
    put_list(section, image.entrypoint);
    put_list(section, image.cmd);
    put_list(section, {image.working_dir, image.user, image.architecture});
    put_list(section, image.volumes);
    if (image.of_enroot || image.unread_lines > 0)
        put_list(section, {image.of_enroot ? "1" : "0", cat(image.unread_lines)});
}

/// The place of each section; what follows the header and the table of pages starts at a multiple of a page.
Header IndexBuilder::header() const {
    auto padded = [](uint64_t size, uint64_t to) { return (size + to - 1) / to * to; };
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.flags = sections_[xattrs].empty() ? 0 : flag_xattrs;
    header.inode_count = static_cast<uint32_t>(tree_.nodes.size());
    header.range_count = section_count;
    uint64_t body = 0;
    for (const std::string& section : sections_) body += padded(section.size(), 8);
    // Padding stands before the table, so that the table ends where the first page starts.
    uint64_t table = padded(body, page_size) / page_size * sizeof(uint64_t);
    uint64_t at = padded(sizeof header + table, page_size);
    header.sections[pages] = {at - table, table};
    for (uint32_t i = 0; i < pages; ++i) {
        header.sections[i] = {at, sections_[i].size()};
        at += padded(sections_[i].size(), 8);
    }
    header.file_size = at;
    return header;
}

std::string IndexBuilder::assemble() const {
    Header header = this->header();
    std::string out(header.file_size, '\0');
    auto write = [&](uint64_t at, const void* from, size_t size) { std::memcpy(out.data() + at, from, size); };
    for (uint32_t i = 0; i < pages; ++i) write(header.sections[i].offset, sections_[i].data(), sections_[i].size());
    const Range& table = header.sections[pages];
    uint64_t body = table.offset + table.size;
    for (uint64_t i = 0; i < table.size / sizeof(uint64_t); ++i) {
        uint64_t hash = bulk_hash(std::string_view(out).substr(body + i * page_size, page_size));
        write(table.offset + i * sizeof hash, &hash, sizeof hash);
    }
    header.pages_hash = hash(std::string_view(out).substr(table.offset, table.size));
    header.header_hash = hash_of(header);
    write(0, &header, sizeof header);
    return out;
}

std::string IndexBuilder::build(const std::vector<LayerInfo>& layer_list, const plan::ImageConfig& image) {
    add_names();
    add_xattrs();
    add_inodes();
    add_blocks();
    add_layers(layer_list);
    add_config(layer_list, image);
    // Names and xattr sets are found by 32-bit offsets.
    constexpr uint64_t limit = std::numeric_limits<uint32_t>::max();
    if (sections_[names].size() > limit || sections_[xattrs].size() >= limit || tree_.nodes.size() >= limit)
        throw Error(cat("building the index of an image: it has ", tree_.nodes.size(),
                        " files, whose names or xattrs take more than 4 GiB; the image is refused"));
    return assemble();
}

}  // namespace

std::string build_index(const Tree& tree, const std::vector<LayerInfo>& layers, const plan::ImageConfig& config) {
    return IndexBuilder(tree.data()).build(layers, config);
}

}  // namespace berth::squash
