#include "runtime/squash/index/index_bytes.hh"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

using format::Header;
using format::InodeRecord;
using format::LayerRecord;

namespace {

/// Pages of the file that are read together: as many as the kernel brings into a mapping at once.
constexpr uint64_t pages_at_once = 16;
/// Holds the header and the table of pages of an index of some 20,000 files.
constexpr uint64_t first_read = 16 << 10;

/// Throws SysError; a file that has become shorter is EIO as well.
void read_whole(int fd, char* out, uint64_t size, uint64_t at) {
    for (uint64_t done = 0; done < size;) {
        ssize_t got = ::pread(fd, out + done, size - done, static_cast<off_t>(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) throw SysError("reading the index of the image", got == 0 ? EIO : errno);
        done += static_cast<uint64_t>(got);
    }
}

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

IndexBytes::IndexBytes(int fd, const std::string& what, std::string remedy) : IndexBytes() {
    remedy_ = std::move(remedy);
    auto size = static_cast<uint64_t>(sys::stat_of(fd, printable(what, 4096)).st_size);
    if (size < sizeof(Header)) refuse(what, "it is too short for an index");
    file_ = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!file_) throw SysError(cat("opening the index ", printable(what, 4096)));
    void* room = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw SysError(cat("making room for the index ", printable(what, 4096)));
    memory_ = static_cast<char*>(room);
    bytes_ = {memory_, size};
    uint64_t start = std::min<uint64_t>(size, first_read);
    read_whole(fd, memory_, start, 0);
    // Of a damaged header nothing more is needed than what says so.
    std::memcpy(&header_, memory_, sizeof header_);
    const format::Range& table = header_.sections[format::pages];
    if (table.offset <= size && table.size <= size - table.offset && table.offset + table.size > start)
        read_whole(fd, memory_ + start, table.offset + table.size - start, start);
    load(what);
}

IndexBytes::IndexBytes(std::string bytes) : IndexBytes() {
    owned_ = std::move(bytes);
    bytes_ = owned_;
    load("in memory");
}

IndexBytes::~IndexBytes() {
    if (memory_) ::munmap(memory_, bytes_.size());
}

void IndexBytes::load(const std::string& what) {
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
    if (file_) load_pages(what);
    load_layers(what);
}

void IndexBytes::load_pages(const std::string& what) {
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

/// Reads around the page, since the next ones are likely to be wanted too. A read that hangs holds up its own thread
/// only: what it brings is put into place afterwards.
void IndexBytes::load_page(uint64_t page) const {
    char around[pages_at_once * format::page_size];
    uint64_t first = page - page % pages_at_once, at = body() + first * format::page_size;
    uint64_t size = std::min<uint64_t>(sizeof around, bytes_.size() - at);
    read_whole(file_.get(), around, size, at);
    const char* table = section(format::pages).data();
    for (uint64_t i = 0; i * format::page_size < size; ++i) {
        std::string_view content = std::string_view(around, size).substr(i * format::page_size, format::page_size);
        uint64_t right = 0;
        std::memcpy(&right, table + (first + i) * sizeof right, sizeof right);
        if (format::bulk_hash(content) == right) {
            std::lock_guard lock(filling_);
            if (sound_[first + i].load(std::memory_order_relaxed)) continue;
            std::memcpy(memory_ + at + i * format::page_size, content.data(), content.size());
            sound_[first + i].store(true, std::memory_order_release);
        } else if (first + i == page) {
            throw Error(cat("reading the index of the image: its bytes at ", at + i * format::page_size,
                            " are not those that were written; ", remedy_));
        }
    }
}

void IndexBytes::forget_pages() const {
    if (!sound_) return;
    uint64_t count = section(format::pages).size() / sizeof(uint64_t);
    for (uint64_t page = 0; page < count; ++page) sound_[page].store(false, std::memory_order_relaxed);
    // Pages of memory may be larger than those of the file: the first one can have some of what comes before.
    uint64_t first = (body() + berth::page_size() - 1) / berth::page_size() * berth::page_size();
    if (first < bytes_.size()) ::madvise(memory_ + first, bytes_.size() - first, MADV_DONTNEED);
}

void IndexBytes::load_layers(const std::string& what) {
    checked(section(format::config));
    std::vector<std::string> names = ListReader(section(format::config)).list();
    for (size_t i = 0; auto found = record<LayerRecord>(format::layers, i); ++i) {
        if (!std::has_single_bit(found->block_size) || found->block_size < 4096 || found->block_size > (1U << 20))
            refuse(what, "a layer has a wrong block size");
        layers_.push_back(
            {i < names.size() ? names[i] : std::string(), static_cast<Codec>(found->codec), found->block_size});
    }
}

plan::ImageConfig IndexBytes::config() const {
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
    std::vector<std::string> of_files = reader.list();
    of_files.resize(2);
    config.of_enroot = of_files[0] == "1";
    uint64_t unread = 0;
    if (parse_number(of_files[1], UINT32_MAX, unread)) config.unread_lines = static_cast<uint32_t>(unread);
    return config;
}

}  // namespace berth::squash
