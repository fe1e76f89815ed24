#include "tests/hostile/target.hh"

#include <algorithm>
#include <stdexcept>

#include "runtime/base/error.hh"

namespace berth::hostile {

std::vector<Target>& targets() {
    static std::vector<Target> all;
    return all;
}

void refusing(const std::function<void()>& parse) {
    try {
        parse();
    } catch (const Error& error) {
        std::string_view text = error.what();
        if (text.empty() || text.size() > (1 << 16)) throw std::logic_error("an error has no text, or one without end");
        // A line end is part of the errors with a caret alone, which have three lines.
        bool plain = std::none_of(text.begin(), text.end(), [](char c) {
            return (static_cast<unsigned char>(c) < ' ' && c != '\n') || c == '\x7f';
        });
        auto lines = 1 + std::count(text.begin(), text.end(), '\n');
        if (!plain || (lines != 1 && lines != 3))
            throw std::logic_error("an error holds control characters of its input");
    }
}

void must(bool holds, const char* otherwise) {
    if (!holds) throw std::logic_error(otherwise);
}

bool is_plain_line(std::string_view text) {
    return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

std::string_view take(std::string_view& input, size_t size) {
    std::string_view out = input.substr(0, size);
    input.remove_prefix(out.size());
    return out;
}

unsigned take_byte(std::string_view& input) {
    std::string_view byte = take(input, 1);
    return byte.empty() ? 0 : static_cast<unsigned char>(byte[0]);
}

std::string_view take_line(std::string_view& input) {
    std::string_view line = take(input, input.find('\n'));
    take(input, 1);
    return line;
}

}  // namespace berth::hostile
