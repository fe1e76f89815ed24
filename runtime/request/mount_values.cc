#include "runtime/request/mount_values.hh"

#include <string_view>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

const char* const mounts_variable = "SLURM_BERTH_MOUNTS";

namespace {

/// The kernel allows 128 KiB for a variable.
constexpr size_t mounts_limit = 100 << 10;

}  // namespace

std::string joined_mounts(const std::vector<std::string>& values) {
    std::string out;
    for (const std::string& value : values) out += cat(out.empty() ? "" : ",", value);
    if (out.size() > mounts_limit)
        throw Error(cat("--", mount_option, ": all of them together have more than ", mounts_limit >> 10,
                        " KiB; mount a folder above them"));
    return out;
}

std::string all_mounts(const std::vector<std::string>& environment, const std::string& last) {
    const char* value = variable(environment, mounts_variable);
    if (value == nullptr) return last;
    std::string_view all = value;
    bool fits = all.size() <= mounts_limit && all.ends_with(last) &&
                (all.size() == last.size() || all[all.size() - last.size() - 1] == ',');
    return fits ? std::string(all) : last;
}

void complete_mounts(GivenOptions& options, const std::vector<std::string>& environment) {
    for (auto& [name, value] : options)
        if (name == mount_option) value = all_mounts(environment, value);
}

}  // namespace berth::plan
