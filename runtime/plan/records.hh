// Records as text, "KEY LENGTH\nVALUE\n" each: how what lasts is written down. Values may hold any bytes. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::plan {

struct Record {
    std::string_view key, value;
};

/// `key` has neither blanks nor line ends.
void add_record(std::string& out, std::string_view key, std::string_view value);

/// Takes the first record off `text`; nothing where there is none, or its value is longer than `limit` bytes.
std::optional<Record> take_record(std::string_view& text, uint64_t limit);

}  // namespace berth::plan
