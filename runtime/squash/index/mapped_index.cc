#include "runtime/squash/index/mapped_index.hh"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

using format::Header;
using format::InodeRecord;
using format::LayerRecord;

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
    throw Error(
        cat("opening the index ", printable(what, 4096), ": ", why, "; remove it, it is built again from its layers"));
}

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

MappedIndex::MappedIndex(int fd, const std::string& what) : MappedIndex() {
    auto size = static_cast<size_t>(sys::stat_of(fd, printable(what, 4096)).st_size);
    if (size < sizeof(Header)) refuse(what, "it is too short for an index");
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) throw SysError(cat("mapping the index ", printable(what, 4096)));
    mapped_ = mapped;
    bytes_ = {static_cast<const char*>(mapped), size};
    load(what);
}

MappedIndex::MappedIndex(std::string bytes) : MappedIndex() {
    owned_ = std::move(bytes);
    bytes_ = owned_;
    load("in memory");
}

MappedIndex::~MappedIndex() {
    if (mapped_) ::munmap(mapped_, bytes_.size());
}

void MappedIndex::load(const std::string& what) {
    if (bytes_.size() < sizeof header_) refuse(what, "it is too short for an index");
    std::memcpy(&header_, bytes_.data(), sizeof header_);
    if (std::memcmp(header_.magic, format::magic, sizeof format::magic) != 0) refuse(what, "it is not an index");
    if (header_.version != format::version)
        refuse(what, cat("it has format version ", header_.version, ", this berth reads version ", format::version));
    if (header_.header_hash != format::hash_of(header_) || header_.range_count != format::section_count)
        refuse(what, "its header is damaged");
    if (header_.file_size != bytes_.size())
        refuse(what, cat("it has ", bytes_.size(), " bytes but should have ", header_.file_size));
    for (const format::Range& range : header_.sections)
        if (range.offset % 8 != 0 || range.offset > bytes_.size() || range.size > bytes_.size() - range.offset)
            refuse(what, "a section is outside the file");
    if (section(format::inodes).size() / sizeof(InodeRecord) != header_.inode_count || header_.inode_count == 0)
        refuse(what, "its count of inodes is wrong");
    if (mapped_) load_pages(what);
    load_layers(what);
}

void MappedIndex::load_pages(const std::string& what) {
    std::string_view table = section(format::pages);
    uint64_t count =
        (bytes_.size() - std::min<uint64_t>(bytes_.size(), body()) + format::page_size - 1) / format::page_size;
    if (body() % format::page_size != 0 || table.size() / sizeof(uint64_t) != count ||
        header_.pages_hash != format::hash(table))
        refuse(what, "its table of pages is damaged");
    for (const format::Range& range : header_.sections)
        if (&range != &header_.sections[format::pages] && range.offset < body())
            refuse(what, "a section is outside its pages");
    sound_ = std::make_unique<std::atomic<bool>[]>(count);
}

void MappedIndex::check_page(uint64_t page) const {
    std::string_view content = bytes_.substr(body() + page * format::page_size, format::page_size);
    uint64_t right = 0;
    std::memcpy(&right, section(format::pages).data() + page * sizeof right, sizeof right);
    if (format::bulk_hash(content) != right)
        throw Error(cat("reading the index of the image: its bytes at ", content.data() - bytes_.data(),
                        " are not those that were written; run berth verify, which makes it anew"));
    sound_[page].store(true, std::memory_order_relaxed);
}

void MappedIndex::load_layers(const std::string& what) {
    checked(section(format::config));
    std::vector<std::string> names = ListReader(section(format::config)).list();
    for (size_t i = 0; auto found = record<LayerRecord>(format::layers, i); ++i) {
        if (!std::has_single_bit(found->block_size) || found->block_size < 4096 || found->block_size > (1U << 20))
            refuse(what, "a layer has a wrong block size");
        layers_.push_back(
            {i < names.size() ? names[i] : std::string(), static_cast<Codec>(found->codec), found->block_size});
    }
}

plan::ImageConfig MappedIndex::config() const {
    ListReader reader(section(format::config));
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

}  // namespace berth::squash
