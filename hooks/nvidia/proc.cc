// The texts that the NVIDIA driver shows below /proc.
#include <algorithm>

#include "hooks/nvidia/driver.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

bool is_version(const std::string& word) {
    return !word.empty() && word.find_first_not_of("0123456789.") == std::string::npos &&
           word.find('.') != std::string::npos && word.front() != '.' && word.back() != '.';
}

/// "NUMBER NAME" of a line; false for others.
bool number_and_name(const std::string& line, unsigned& number, std::string& name) {
    std::vector<std::string> words;
    for (const std::string& word : split(line, ' '))
        if (!word.empty()) words.push_back(word);
    uint64_t value = 0;
    if (words.size() != 2 || !parse_number(words[0], 1 << 20, value)) return false;
    name = words[1];
    number = static_cast<unsigned>(value);
    return true;
}

}  // namespace

std::string parse_module_version(const std::string& text) {
    std::string line = text.substr(0, text.find('\n'));
    for (const std::string& word : split(line, ' '))
        if (is_version(word)) return word;
    return {};
}

std::map<std::string, unsigned> parse_majors(const std::string& text) {
    std::map<std::string, unsigned> out;
    for (const std::string& line : split(text, '\n')) {
        if (line.starts_with("Block devices")) break;
        std::string name;
        unsigned number = 0;
        if (number_and_name(line, number, name)) out.emplace(name, number);
    }
    return out;
}

std::optional<unsigned> parse_cap_minor(const std::string& text) {
    const std::string_view key = "DeviceFileMinor: ";
    for (const std::string& line : split(text, '\n'))
        if (uint64_t number = 0; line.starts_with(key) && parse_number(line.substr(key.size()), 1 << 20, number))
            return static_cast<unsigned>(number);
    return std::nullopt;
}

std::optional<Gpu> parse_gpu(const std::string& text) {
    Gpu out;
    bool numbered = false;
    for (const std::string& line : split(text, '\n')) {
        size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        std::string name = line.substr(0, colon), value(trimmed(std::string_view(line).substr(colon + 1)));
        uint64_t minor = 0;
        if (name == "Model") out.model = value;
        if (name == "GPU Excluded") out.excluded = value == "Yes";
        // A GPU that nothing has used yet shows question marks.
        if (name == "GPU UUID" && value.find('?') == std::string::npos) out.uuid = value;
        if (name == "Device Minor" && parse_number(value, 254, minor)) {
            out.minor = static_cast<unsigned>(minor);
            numbered = true;
        }
    }
    if (!numbered) return std::nullopt;
    return out;
}

std::string cuda_of_driver(const std::string& version) {
    // First driver of a branch, and the CUDA release that came with it (CUDA release notes, table of toolkit and driver
    // versions).
    struct Branch {
        unsigned driver;
        const char* cuda;
    };
    static constexpr Branch branches[] = {{590, "13.1"}, {580, "13.0"}, {575, "12.9"}, {570, "12.8"}, {565, "12.7"},
                                          {560, "12.6"}, {555, "12.5"}, {550, "12.4"}, {545, "12.3"}, {535, "12.2"},
                                          {530, "12.1"}, {525, "12.0"}, {520, "11.8"}, {515, "11.7"}, {510, "11.6"},
                                          {495, "11.5"}, {470, "11.4"}, {465, "11.3"}, {460, "11.2"}, {455, "11.1"},
                                          {450, "11.0"}, {440, "10.2"}, {418, "10.1"}, {410, "10.0"}};
    constexpr unsigned newest_known = 599;
    uint64_t number = 0;
    if (!parse_number(version.substr(0, version.find('.')), 1 << 20, number) || number > newest_known) return {};
    for (const Branch& branch : branches)
        if (number >= branch.driver) return branch.cuda;
    return {};
}

}  // namespace berth::hooks
