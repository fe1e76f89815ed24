#include "hooks/edits.hh"
#include "hooks/nvidia/nvml.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

[[noreturn]] void refuse(const std::string& line) {
    throw Error(cat("reading what NVML says: '", printable(line), "' is not understood"));
}

unsigned number_of(const std::string& word, const std::string& line) {
    uint64_t out = 0;
    if (!parse_number(word, 1 << 20, out)) refuse(line);
    return static_cast<unsigned>(out);
}

std::string optional_word(const std::string& word) { return word == "-" ? "" : word; }

}  // namespace

NvmlReport parse_nvml(const std::string& text) {
    NvmlReport out;
    for (const std::string& line : split(text, '\n')) {
        if (line.empty()) continue;
        std::vector<std::string> words = split(line, ' ');
        if (words[0] == "driver" && words.size() == 3) {
            out.driver = words[1];
            out.cuda = optional_word(words[2]);
        } else if (words[0] == "gpu" && words.size() == 7) {
            out.gpus.push_back({.bus = normal_bus(words[1]),
                                .minor = number_of(words[2], line),
                                .uuid = optional_word(words[3]),
                                .arch = optional_word(words[4]),
                                .brand = optional_word(words[5]),
                                .mig = words[6] == "mig",
                                .slices = {}});
        } else if (words[0] == "slice" && words.size() == 5 && !out.gpus.empty()) {
            out.gpus.back().slices.push_back(
                {number_of(words[1], line), number_of(words[2], line), number_of(words[3], line), words[4]});
        } else {
            refuse(line);
        }
    }
    return out;
}

}  // namespace berth::hooks
