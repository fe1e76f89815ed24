#include "runtime/base/mountinfo.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth {

namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::string unescaped_field(std::string_view field) {
    std::string out;
    for (size_t i = 0; i < field.size(); ++i) {
        std::string_view digits = field.substr(i + 1, 3);
        if (field[i] == '\\' && digits.size() == 3 && std::all_of(digits.begin(), digits.end(), is_octal)) {
            out += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        } else {
            out += field[i];
        }
    }
    return out;
}

std::vector<MountLine> parse_mountinfo(std::string_view text) {
    // ID PARENT DEVICE ROOT PLACE OPTIONS, any number of tags, "-", TYPE SOURCE OPTIONS.
    constexpr ptrdiff_t place = 4, tags = 6;
    std::vector<MountLine> out;
    for (const std::string& line : split(text, '\n')) {
        std::vector<std::string> fields = split(line, ' ');
        if (fields.size() <= tags) continue;
        auto dash = std::find(fields.begin() + tags, fields.end(), "-");
        if (fields.end() - dash < 3) continue;
        out.push_back({fields[0], unescaped_field(fields[place]), dash[1], unescaped_field(dash[2])});
    }
    return out;
}

}  // namespace berth
