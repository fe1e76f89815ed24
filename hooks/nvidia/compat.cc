// CUDA's forward compatibility: newer libraries that an image brings for an older driver.
#include <algorithm>

#include "hooks/elf.hh"
#include "hooks/nvidia/nvidia.hh"
#include "hooks/nvidia/requirements.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

constexpr const char* compat = "/usr/local/cuda/compat";
constexpr const char* note_section = ".note.cuda.fwd_compatibility";
constexpr size_t note_limit = 64 << 10;

/// The text in the note section of a 64-bit ELF file; empty when there is none or the file is no such file.
std::string note_of(const Rootfs& image, const std::string& path) {
    ElfSections file([&](uint64_t offset, size_t size) { return image.read(path, offset, size); });
    const Elf64_Shdr* note = file ? file.named(note_section) : nullptr;
    return note ? file.content(*note, note_limit) : std::string();
}

/// The whole numbers in the list that is the value of `key` in a note's JSON, in quotes or not.
std::vector<uint64_t> numbers_in_list(const std::string& note, const std::string& key) {
    std::vector<uint64_t> out;
    size_t at = note.find("\"" + key + "\"");
    size_t open = at == std::string::npos ? at : note.find('[', at);
    size_t close = open == std::string::npos ? open : note.find(']', open);
    if (close == std::string::npos) return out;
    for (std::string word : split(note.substr(open + 1, close - open - 1), ',')) {
        std::erase_if(word, [](char c) { return c == '"' || c == ' ' || c == '\n' || c == '\t'; });
        if (uint64_t number = 0; parse_number(word, UINT32_MAX, number)) out.push_back(number);
    }
    return out;
}

uint64_t major_of(const std::string& version) {
    uint64_t out = 0;
    parse_number(version.substr(0, version.find('.')), UINT32_MAX, out);
    return out;
}

/// "590.44.01" of the image's libcuda.so.590.44.01; empty when there is none.
std::string compat_version(const Rootfs& image) {
    constexpr std::string_view start = "libcuda.so.";
    for (const std::string& name : image.list(compat)) {
        if (!name.starts_with(start)) continue;
        std::string version = name.substr(start.size());
        if (version.find('.') != std::string::npos && version.find_first_not_of("0123456789.") == std::string::npos &&
            version.front() != '.' && version.back() != '.' && version.find("..") == std::string::npos &&
            version.size() < 32)
            return version;
    }
    return {};
}

}  // namespace

std::string compat_folder(const Rootfs& image, const std::string& driver_version) {
    std::string version = compat_version(image);
    if (version.empty()) return {};
    std::string note = note_of(image, cat(compat, "/libcuda.so.", version));
    uint64_t host_major = major_of(driver_version);
    if (note.empty()) return host_major < major_of(version) ? compat : "";
    std::vector<uint64_t> drivers = numbers_in_list(note, "Driver");
    bool listed = std::find(drivers.begin(), drivers.end(), host_major) != drivers.end();
    return listed && compare_versions(version, driver_version,
                                      "comparing CUDA's compatibility libraries with the driver") > 0
               ? compat
               : "";
}

}  // namespace berth::hooks
