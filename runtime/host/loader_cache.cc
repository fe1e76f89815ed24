#include "runtime/host/loader_cache.hh"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

static_assert(std::endian::native == std::endian::little, "caches of big-endian machines are not read");

constexpr std::string_view old_magic = "ld.so-1.7.0";
constexpr std::string_view magic = "glibc-ld.so.cache1.1";
constexpr size_t old_header = 16, old_entry = 12;
constexpr size_t header_size = 48, entry_size = 24, extension_header = 8, section_size = 16;
constexpr uint32_t extension_magic = 0xEAA42174;
constexpr uint32_t hwcaps_tag = 1, section_limit = 16, hwcaps_limit = 1024;
constexpr uint8_t little_endian = 2;
constexpr size_t text_limit = 64 << 20;

class CacheReader {
  public:
    CacheReader(std::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

    [[noreturn]] void refuse(const char* why) const { throw Error(cat("reading ", what_, ": ", why)); }

    template <typename Number>
    Number number(size_t at) const {
        Number out;
        if (at > bytes_.size() || bytes_.size() - at < sizeof out) refuse("it ends too early");
        std::memcpy(&out, bytes_.data() + at, sizeof out);
        return out;
    }

    std::string text(size_t at) {
        size_t end = at < bytes_.size() ? bytes_.find('\0', at) : std::string_view::npos;
        if (end == std::string_view::npos) refuse("a name lies outside of it");
        total_ += end - at;
        // Entries may share a text, so that a small file can ask for much.
        if (total_ > text_limit) refuse("its names are too long");
        return std::string(bytes_.substr(at, end - at));
    }

    size_t size() const { return bytes_.size(); }

  private:
    std::string_view bytes_;
    const std::string& what_;
    size_t total_ = 0;
};

/// Leaves the part of the new format, which starts at a multiple of 8.
std::string_view without_old_part(std::string_view bytes) {
    if (!bytes.starts_with(old_magic) || bytes.size() < old_header) return bytes;
    uint32_t count;
    std::memcpy(&count, bytes.data() + 12, sizeof count);
    size_t start = (old_header + old_entry * static_cast<size_t>(count) + 7) / 8 * 8;
    return start < bytes.size() ? bytes.substr(start) : std::string_view();
}

std::vector<std::string> read_hwcaps(CacheReader& in) {
    std::vector<std::string> out;
    uint32_t at = in.number<uint32_t>(32);
    if (at == 0) return out;
    if (in.number<uint32_t>(at) != extension_magic) return out;
    uint32_t sections = in.number<uint32_t>(size_t{at} + 4);
    if (sections > section_limit) in.refuse("it has too many extensions");
    for (uint32_t i = 0; i < sections; ++i) {
        size_t section = size_t{at} + extension_header + i * section_size;
        if (in.number<uint32_t>(section) != hwcaps_tag) continue;
        uint32_t start = in.number<uint32_t>(section + 8), count = in.number<uint32_t>(section + 12) / 4;
        if (count > hwcaps_limit) in.refuse("it has too many kinds of processors");
        for (uint32_t name = 0; name < count; ++name)
            out.push_back(in.text(in.number<uint32_t>(size_t{start} + name * 4)));
    }
    return out;
}

template <typename Number>
void put(std::string& out, Number number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Texts, each once, at their offsets from the start of the file.
class Texts {
  public:
    explicit Texts(size_t start) : start_(start) {}
    uint32_t add(const std::string& text) {
        size_t at = start_ + bytes_.size();
        bytes_.append(text.c_str(), text.size() + 1);
        return static_cast<uint32_t>(at);
    }
    const std::string& bytes() const { return bytes_; }

  private:
    size_t start_;
    std::string bytes_;
};

/// The loader searches by halves in descending order; libraries of one name have the greatest flags and processor
/// first.
bool stands_before(const plan::CachedLibrary& one, const plan::CachedLibrary& other) {
    if (int order = compare_library_names(one.name, other.name); order != 0) return order > 0;
    if (one.flags != other.flags) return one.flags > other.flags;
    return one.hwcap > other.hwcap;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

uint32_t take_number(std::string_view& text) {
    uint32_t out = 0;
    while (!text.empty() && is_digit(text[0])) {
        out = out * 10 + static_cast<uint32_t>(text[0] - '0');
        text.remove_prefix(1);
    }
    return out;
}

}  // namespace

int32_t loader_flags() {
#if defined(__x86_64__)
    return 0x0303;
#elif defined(__aarch64__)
    return 0x0a03;
#else
    return 0x0003;
#endif
}

int compare_library_names(std::string_view one, std::string_view other) {
    while (!one.empty() && !other.empty()) {
        if (is_digit(one[0]) && is_digit(other[0])) {
            uint32_t left = take_number(one), right = take_number(other);
            if (left != right) return left < right ? -1 : 1;
            continue;
        }
        if (is_digit(one[0]) != is_digit(other[0])) return is_digit(one[0]) ? 1 : -1;
        if (one[0] != other[0])
            return static_cast<unsigned char>(one[0]) < static_cast<unsigned char>(other[0]) ? -1 : 1;
        one.remove_prefix(1);
        other.remove_prefix(1);
    }
    return one.empty() && other.empty() ? 0 : one.empty() ? -1 : 1;
}

LoaderCache parse_loader_cache(std::string_view bytes, const std::string& what) {
    bytes = without_old_part(bytes);
    CacheReader in(bytes, what);
    if (!bytes.starts_with(magic)) in.refuse("it is no cache of glibc's loader in a known format");
    uint32_t count = in.number<uint32_t>(20);
    if (bytes.size() < header_size || count > (bytes.size() - header_size) / entry_size) in.refuse("it ends too early");
    LoaderCache out;
    out.libraries.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
        size_t at = header_size + i * entry_size;
        plan::CachedLibrary library;
        library.flags = in.number<int32_t>(at);
        library.name = in.text(in.number<uint32_t>(at + 4));
        library.path = in.text(in.number<uint32_t>(at + 8));
        library.osversion = in.number<uint32_t>(at + 12);
        library.hwcap = in.number<uint64_t>(at + 16);
        out.libraries.push_back(std::move(library));
    }
    out.hwcaps = read_hwcaps(in);
    return out;
}

std::string loader_cache_bytes(LoaderCache cache) {
    std::stable_sort(cache.libraries.begin(), cache.libraries.end(), stands_before);
    Texts texts(header_size + entry_size * cache.libraries.size());
    std::string entries, sections;
    for (const plan::CachedLibrary& library : cache.libraries) {
        put(entries, library.flags);
        put(entries, texts.add(library.name));
        put(entries, texts.add(library.path));
        put(entries, library.osversion);
        put(entries, library.hwcap);
    }
    for (const std::string& name : cache.hwcaps) put(sections, texts.add(name));
    size_t extension = (header_size + entries.size() + texts.bytes().size() + 3) / 4 * 4;
    std::string out(magic);
    put(out, static_cast<uint32_t>(cache.libraries.size()));
    put(out, static_cast<uint32_t>(texts.bytes().size()));
    out.append({static_cast<char>(little_endian), 0, 0, 0});
    put(out, cache.hwcaps.empty() ? 0 : static_cast<uint32_t>(extension));
    out.resize(header_size);
    out += entries + texts.bytes();
    if (cache.hwcaps.empty()) return out;
    out.resize(extension);
    for (uint32_t number :
         {extension_magic, 1U, hwcaps_tag, 0U, static_cast<uint32_t>(extension + extension_header + section_size),
          static_cast<uint32_t>(sections.size())})
        put(out, number);
    return out + sections;
}

void add_libraries(LoaderCache& cache, const std::vector<plan::CachedLibrary>& libraries) {
    std::set<std::pair<std::string, int32_t>> added;
    for (const plan::CachedLibrary& library : libraries) added.insert({library.name, library.flags});
    std::erase_if(cache.libraries,
                  [&](const plan::CachedLibrary& old) { return added.contains({old.name, old.flags}); });
    cache.libraries.insert(cache.libraries.end(), libraries.begin(), libraries.end());
}

}  // namespace berth
