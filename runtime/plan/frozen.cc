#include "runtime/plan/frozen.hh"

#include "runtime/base/text.hh"
#include "runtime/plan/reference.hh"

namespace berth::plan {

const char* const frozen_variable = "SLURM_BERTH_FROZEN";

std::string frozen_value(std::string_view image, std::string_view digest) { return cat(image, " ", digest); }

std::string frozen_digest(const std::vector<std::string>& environment, std::string_view image) {
    std::string start = cat(frozen_variable, "=", image, " ");
    for (const std::string& text : environment)
        if (text.starts_with(start) && is_digest(std::string_view(text).substr(start.size()))) return text.substr(start.size());
    return {};
}

}  // namespace berth::plan
