// Records of a binary format in bytes that may end before them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace berth {

/// A copy of the record at `offset`, in the byte order of this machine; nothing where it ends behind the bytes.
template <typename Record>
std::optional<Record> record_at(std::string_view bytes, uint64_t offset) {
    static_assert(std::is_trivially_copyable_v<Record>);
    if (offset > bytes.size() || bytes.size() - offset < sizeof(Record)) return std::nullopt;
    Record out;
    bytes.copy(reinterpret_cast<char*>(&out), sizeof out, offset);
    return out;
}

}  // namespace berth
