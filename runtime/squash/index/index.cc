#include "runtime/squash/index/index.hh"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index_impl.hh"

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

void Index::Impl::load(const std::string& what) {
    if (bytes.size() < sizeof header) refuse(what, "it is too short for an index");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, format::magic, sizeof format::magic) != 0) refuse(what, "it is not an index");
    if (header.version != format::version)
        refuse(what, cat("it has format version ", header.version, ", this berth reads version ", format::version));
    if (header.header_hash != format::hash_of(header) || header.range_count != format::section_count)
        refuse(what, "its header is damaged");
    if (header.file_size != bytes.size())
        refuse(what, cat("it has ", bytes.size(), " bytes but should have ", header.file_size));
    for (const format::Range& range : header.sections)
        if (range.offset % 8 != 0 || range.offset > bytes.size() || range.size > bytes.size() - range.offset)
            refuse(what, "a section is outside the file");
    if (section(format::inodes).size() / sizeof(InodeRecord) != header.inode_count || header.inode_count == 0)
        refuse(what, "its count of inodes is wrong");
    if (mapped) load_pages(what);
    load_layers(what);
}

void Index::Impl::load_pages(const std::string& what) {
    std::string_view table = section(format::pages);
    uint64_t count =
        (bytes.size() - std::min<uint64_t>(bytes.size(), body()) + format::page_size - 1) / format::page_size;
    if (body() % format::page_size != 0 || table.size() / sizeof(uint64_t) != count ||
        header.pages_hash != format::hash(table))
        refuse(what, "its table of pages is damaged");
    for (const format::Range& range : header.sections)
        if (&range != &header.sections[format::pages] && range.offset < body())
            refuse(what, "a section is outside its pages");
    sound = std::make_unique<std::atomic<bool>[]>(count);
}

void Index::Impl::check_page(uint64_t page) const {
    std::string_view content = bytes.substr(body() + page * format::page_size, format::page_size);
    uint64_t right = 0;
    std::memcpy(&right, section(format::pages).data() + page * sizeof right, sizeof right);
    if (format::bulk_hash(content) != right)
        throw Error(cat("reading the index of the image: its bytes at ", content.data() - bytes.data(),
                        " are not those that were written; run berth verify, which makes it anew"));
    sound[page].store(true, std::memory_order_relaxed);
}

void Index::Impl::load_layers(const std::string& what) {
    checked(section(format::config));
    std::vector<std::string> names = ListReader(section(format::config)).list();
    for (size_t i = 0; auto found = record<LayerRecord>(format::layers, i); ++i) {
        if (!std::has_single_bit(found->block_size) || found->block_size < 4096 || found->block_size > (1U << 20))
            refuse(what, "a layer has a wrong block size");
        layers.push_back(
            {i < names.size() ? names[i] : std::string(), static_cast<Codec>(found->codec), found->block_size});
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

uint32_t Index::inode_count() const {
    return impl_->header.inode_count;
}

bool Index::has_xattrs() const {
    return impl_->header.flags & format::flag_xattrs;
}

const std::vector<LayerInfo>& Index::layers() const {
    return impl_->layers;
}

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

}  // namespace berth::squash
