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

std::string list_file(const Digest& digest) { return cat(digest.hex(), ".", plan::machine_architecture); }

std::string layer_file_name(const Digest& diff_id) { return cat(diff_id.hex(), ".zstd.sqfs"); }

}  // namespace berth::store
