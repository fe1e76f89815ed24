#include "runtime/squash/index.hh"

#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index_format.hh"

namespace berth::squash {

using format::EntryRecord;
using format::FragmentRecord;
using format::Header;
using format::InodeRecord;
using format::LayerRecord;

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
    throw Error(cat("opening the index ", printable(what, 4096), ": ", why, "; remove it, it is built again from its layers"));
}

/// Directories have no size of their own in a merged tree; this is what most file systems show.
constexpr uint64_t directory_size = 4096;

/// Reads the lists of strings of the section config; past its end everything is empty.
class ListReader {
  public:
    explicit ListReader(std::string_view bytes) : bytes_(bytes) {}

    std::vector<std::string> list() {
        std::vector<std::string> out;
        // The count is not trusted: each string takes at least the bytes of its length.
        for (uint32_t count = number(); count > 0 && !bytes_.empty(); --count) out.emplace_back(text(number()));
        return out;
    }

  private:
    uint32_t number() {
        uint32_t value = 0;
        std::string_view bytes = text(sizeof value);
        if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    std::string_view text(size_t size) {
        std::string_view out = bytes_.substr(0, size);
        bytes_.remove_prefix(out.size());
        return out;
    }
    std::string_view bytes_;
};

}  // namespace

struct Index::Impl {
    std::string owned;
    void* mapped = nullptr;
    std::string_view bytes;
    Header header{};
    std::vector<LayerInfo> layers;

    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() {
        if (mapped) ::munmap(mapped, bytes.size());
    }

    void load(const std::string& what);
    void load_layers(const std::string& what);

    std::string_view section(format::Section number) const {
        const format::Range& range = header.sections[number];
        return bytes.substr(range.offset, range.size);
    }
    /// The record at `position`, or nothing past the end of the section.
    template <typename Record>
    std::optional<Record> record(format::Section number, uint64_t position) const {
        std::string_view all = section(number);
        if (position >= all.size() / sizeof(Record)) return std::nullopt;
        Record out;
        std::memcpy(&out, all.data() + position * sizeof(Record), sizeof out);
        return out;
    }
    std::optional<InodeRecord> inode_record(uint32_t number) const {
        if (number == 0) return std::nullopt;
        return record<InodeRecord>(format::inodes, number - 1U);
    }
    std::optional<InodeRecord> directory_record(uint32_t number) const {
        auto found = inode_record(number);
        return found && S_ISDIR(found->mode) ? found : std::nullopt;
    }
    std::string_view name_at(uint32_t offset) const {
        std::string_view all = section(format::names);
        if (offset >= all.size()) return {};
        return all.substr(offset + 1U, static_cast<unsigned char>(all[offset]));
    }
    template <typename Visit>
    void each_xattr(uint32_t number, Visit visit) const;
};

void Index::Impl::load(const std::string& what) {
    if (bytes.size() < sizeof header) refuse(what, "it is too short for an index");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, format::magic, sizeof format::magic) != 0) refuse(what, "it is not an index");
    if (header.version != format::version) refuse(what, cat("it has format version ", header.version, ", this berth reads version ", format::version));
    if (header.header_hash != format::hash_of(header) || header.range_count != format::section_count) refuse(what, "its header is damaged");
    if (header.file_size != bytes.size()) refuse(what, cat("it has ", bytes.size(), " bytes but should have ", header.file_size));
    for (const format::Range& range : header.sections)
        if (range.offset % 8 != 0 || range.offset > bytes.size() || range.size > bytes.size() - range.offset) refuse(what, "a section is outside the file");
    if (section(format::inodes).size() / sizeof(InodeRecord) != header.inode_count || header.inode_count == 0) refuse(what, "its count of inodes is wrong");
    load_layers(what);
}

void Index::Impl::load_layers(const std::string& what) {
    std::vector<std::string> names = ListReader(section(format::config)).list();
    for (size_t i = 0; auto found = record<LayerRecord>(format::layers, i); ++i) {
        if (!std::has_single_bit(found->block_size) || found->block_size < 4096 || found->block_size > (1U << 20)) refuse(what, "a layer has a wrong block size");
        layers.push_back({i < names.size() ? names[i] : std::string(), static_cast<Codec>(found->codec), found->block_size});
    }
}

Index::Index(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Index Index::open(int fd, const std::string& what) {
    auto size = static_cast<size_t>(sys::stat_of(fd, printable(what, 4096)).st_size);
    if (size < sizeof(Header)) refuse(what, "it is too short for an index");
    auto impl = std::make_unique<Impl>();
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) throw SysError(cat("mapping the index ", printable(what, 4096)));
    impl->mapped = mapped;
    impl->bytes = {static_cast<const char*>(mapped), size};
    impl->load(what);
    return Index(std::move(impl));
}

Index Index::from_bytes(std::string bytes) {
    auto impl = std::make_unique<Impl>();
    impl->owned = std::move(bytes);
    impl->bytes = impl->owned;
    impl->load("in memory");
    return Index(std::move(impl));
}

bool Index::verify(std::string_view bytes) {
    Header header{};
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    return header.header_hash == format::hash_of(header) && header.file_size == bytes.size() && header.body_hash == format::hash(bytes.substr(sizeof header));
}

uint32_t Index::inode_count() const { return impl_->header.inode_count; }

bool Index::has_xattrs() const { return impl_->header.flags & format::flag_xattrs; }

const std::vector<LayerInfo>& Index::layers() const { return impl_->layers; }

plan::ImageConfig Index::config() const {
    ListReader reader(impl_->section(format::config));
    reader.list();  // the names of the layers
    plan::ImageConfig config;
    config.env = reader.list();
    config.entrypoint = reader.list();
    config.cmd = reader.list();
    std::vector<std::string> single = reader.list();
    single.resize(3);
    config.working_dir = single[0];
    config.user = single[1];
    config.architecture = single[2];
    config.volumes = reader.list();
    return config;
}

std::optional<InodeView> Index::inode(uint32_t number) const {
    auto found = impl_->inode_record(number);
    if (!found) return std::nullopt;
    bool device = S_ISCHR(found->mode) || S_ISBLK(found->mode);
    return InodeView{.mode = found->mode,
                     .nlink = found->nlink,
                     .rdev = device ? found->a : 0,
                     .mtime = found->mtime,
                     .size = S_ISDIR(found->mode) ? directory_size : found->size,
                     .uid = found->uid,
                     .gid = found->gid};
}

uint32_t Index::lookup(uint32_t parent, std::string_view name) const {
    auto directory = impl_->directory_record(parent);
    if (!directory) return 0;
    uint64_t low = 0;
    uint64_t high = directory->c;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        auto entry = impl_->record<EntryRecord>(format::entries, directory->b + middle);
        if (!entry) return 0;
        int order = impl_->name_at(entry->name).compare(name);
        if (order == 0) return entry->inode <= impl_->header.inode_count ? entry->inode : 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

uint32_t Index::entry_count(uint32_t directory) const {
    auto found = impl_->directory_record(directory);
    uint64_t all = impl_->section(format::entries).size() / sizeof(EntryRecord);
    if (!found || found->b > all || found->c > all - found->b) return 0;
    return static_cast<uint32_t>(found->c);
}

std::optional<Entry> Index::entry(uint32_t directory, uint32_t position) const {
    auto found = impl_->directory_record(directory);
    if (!found || position >= found->c) return std::nullopt;
    auto entry = impl_->record<EntryRecord>(format::entries, found->b + position);
    if (!entry) return std::nullopt;
    auto inode = impl_->inode_record(entry->inode);
    if (!inode) return std::nullopt;
    return Entry{impl_->name_at(entry->name), entry->inode, inode->mode};
}

uint32_t Index::parent(uint32_t directory) const {
    auto found = impl_->directory_record(directory);
    return found && found->a <= impl_->header.inode_count ? found->a : 0;
}

std::optional<std::string_view> Index::symlink_target(uint32_t number) const {
    auto found = impl_->inode_record(number);
    std::string_view names = impl_->section(format::names);
    if (!found || !S_ISLNK(found->mode) || found->b > names.size() || found->size > names.size() - found->b) return std::nullopt;
    return names.substr(found->b, found->size);
}

std::optional<FileData> Index::file(uint32_t number) const {
    auto found = impl_->inode_record(number);
    if (!found || !S_ISREG(found->mode) || found->a >= impl_->layers.size()) return std::nullopt;
    FileData file{.layer = found->a, .size = found->size, .start = found->b};
    uint64_t block_size = impl_->layers[found->a].block_size;
    file.has_fragment = found->d != format::no_fragment;
    uint64_t count = found->size / block_size + (!file.has_fragment && found->size % block_size != 0 ? 1 : 0);
    std::string_view blocks = impl_->section(format::blocks);
    uint64_t all = blocks.size() / sizeof(uint32_t);
    if (found->c > all || count > all - found->c) return std::nullopt;
    file.block_count = static_cast<uint32_t>(count);
    file.blocks = reinterpret_cast<const uint32_t*>(blocks.data()) + found->c;
    std::string_view sums = impl_->section(format::sums);
    uint64_t first_sum = (found->c + format::sum_interval - 1) / format::sum_interval;
    uint64_t first_block = first_sum * format::sum_interval - found->c;
    if (first_block < count && (found->c + count - 1) / format::sum_interval < sums.size() / sizeof(uint64_t)) {
        file.sums = reinterpret_cast<const uint64_t*>(sums.data()) + first_sum;
        file.first_sum = static_cast<uint32_t>(first_block);
    }
    if (!file.has_fragment) return file;
    auto fragment = impl_->record<FragmentRecord>(format::fragments, found->d);
    if (!fragment) return std::nullopt;
    file.fragment_start = fragment->start;
    file.fragment_size = fragment->size;
    file.fragment_offset = found->e;
    return file;
}

template <typename Visit>
void Index::Impl::each_xattr(uint32_t number, Visit visit) const {
    auto found = inode_record(number);
    std::string_view rest = section(format::xattrs);
    uint32_t count = 0;
    if (!found || found->xattrs == 0 || found->xattrs - 1 > rest.size()) return;
    rest.remove_prefix(found->xattrs - 1);
    if (rest.size() < sizeof count) return;
    std::memcpy(&count, rest.data(), sizeof count);
    rest.remove_prefix(sizeof count);
    for (; count > 0; --count) {
        uint16_t name = 0;
        uint32_t value = 0;
        if (rest.size() < sizeof name + sizeof value) return;
        std::memcpy(&name, rest.data(), sizeof name);
        std::memcpy(&value, rest.data() + sizeof name, sizeof value);
        rest.remove_prefix(sizeof name + sizeof value);
        if (rest.size() < uint64_t{name} + value) return;
        if (!visit(rest.substr(0, name), rest.substr(name, value))) return;
        rest.remove_prefix(uint64_t{name} + value);
    }
}

std::optional<std::string_view> Index::xattr(uint32_t number, std::string_view name) const {
    std::optional<std::string_view> out;
    impl_->each_xattr(number, [&](std::string_view key, std::string_view value) {
        if (key == name) out = value;
        return key != name;
    });
    return out;
}

std::vector<std::string_view> Index::xattr_names(uint32_t number) const {
    std::vector<std::string_view> out;
    impl_->each_xattr(number, [&](std::string_view key, std::string_view) {
        out.push_back(key);
        return true;
    });
    return out;
}

}  // namespace berth::squash
