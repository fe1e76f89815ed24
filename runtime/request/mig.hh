// The grammar of --mig: which MIG devices a job wants on each of its GPUs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// So many MIG devices of one profile.
struct MigItem {
    std::string profile;  ///< "1g.10gb", "1g.10gb+me"
    unsigned count = 1;
    bool operator==(const MigItem&) const = default;
};
using MigRequest = std::vector<MigItem>;

/// No GPU is divided into more.
inline constexpr unsigned most_mig_devices = 8;

/// Parses PROFILE[:N][,PROFILE[:N]...]. Throws Error for anything else. Which profiles a GPU has is known on the node
/// alone.
MigRequest parse_mig(std::string_view text);

/// The same in one spelling: each profile once, with its count where that is not 1.
std::string mig_text(const MigRequest& request);

}  // namespace berth::plan
