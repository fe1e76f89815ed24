// Base64 of RFC 4648, section 4.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace berth::oci {

/// With padding, in one line.
std::string encode_base64(std::string_view bytes);

/// Nothing unless `text` is base64 with its padding and nothing else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace berth::oci
