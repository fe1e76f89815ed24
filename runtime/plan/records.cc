#include "runtime/plan/records.hh"

#include "runtime/base/text.hh"

namespace berth::plan {

void add_record(std::string& out, std::string_view key, std::string_view value) {
    out += cat(key, ' ', value.size(), '\n', value, '\n');
}

std::optional<Record> take_record(std::string_view& text, uint64_t limit) {
    size_t end = text.find('\n'), blank = text.find(' ');
    uint64_t length = 0;
    if (end == text.npos || blank > end || !parse_number(text.substr(blank + 1, end - blank - 1), limit, length))
        return std::nullopt;
    std::string_view rest = text.substr(end + 1);
    if (rest.size() <= length || rest[length] != '\n') return std::nullopt;
    Record out{text.substr(0, blank), rest.substr(0, length)};
    text = rest.substr(length + 1);
    return out;
}

}  // namespace berth::plan
