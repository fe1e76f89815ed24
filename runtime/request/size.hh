// Sizes as the site file and its users write them. Pure.
#pragma once
#include <cstdint>
#include <string_view>

namespace berth::plan {

/// Bytes of "512M", "2G", "1048576"; binary units K M G T. Throws Error naming `setting`.
uint64_t parse_size(std::string_view text, std::string_view setting);

}  // namespace berth::plan
