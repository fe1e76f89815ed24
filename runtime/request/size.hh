// Sizes as options and the site file have them. Pure.
#pragma once
#include <cstdint>
#include <string_view>

namespace berth::plan {

/// Bytes of "512M", "2G", "1048576"; binary units K M G T. Throws Error, which begins with
/// `setting` when there is one: options of srun are named by whoever reads them.
uint64_t parse_size(std::string_view text, std::string_view setting = {});

}  // namespace berth::plan
