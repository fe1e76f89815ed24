#include "runtime/store/names.hh"

#include <algorithm>

#include "runtime/base/text.hh"
#include "runtime/plan/platform.hh"

namespace berth::store {

std::string refs_directory(const plan::Reference& reference) {
    std::string registry = reference.registry;
    std::replace(registry.begin(), registry.end(), ':', '_');
    return cat("refs/", registry, "/", reference.name);
}

std::string tag_file(const plan::Reference& reference) { return cat(":", reference.tag); }

std::string image_index_file(const Digest& digest) { return cat(digest.hex(), ".", plan::machine_architecture); }

namespace {
constexpr std::string_view layer_ending = ".sqfs", former_layer_ending = ".zstd.sqfs";
}

std::string layer_file_name(const Digest& diff_id) { return cat(diff_id.hex(), layer_ending); }

std::string former_layer_file_name(const Digest& diff_id) { return cat(diff_id.hex(), former_layer_ending); }

std::string other_layer_file_name(const std::string& file) {
    for (const auto& [ending, other] :
         {std::pair(former_layer_ending, layer_ending), std::pair(layer_ending, former_layer_ending)})
        if (file.ends_with(ending)) return cat(file.substr(0, file.size() - ending.size()), other);
    return {};
}

}  // namespace berth::store
