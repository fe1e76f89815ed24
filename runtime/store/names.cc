#include "runtime/store/names.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/platform.hh"

namespace berth::store {

std::string hex_of(const std::string& digest) {
    if (!plan::is_digest(digest))
        throw Error(cat("digest ", printable(digest), ": not sha256: and 64 lower-case hexadecimal digits"));
    return digest.substr(7);
}

std::string refs_directory(const plan::Reference& reference) {
    std::string registry = reference.registry;
    std::replace(registry.begin(), registry.end(), ':', '_');
    return cat("refs/", registry, "/", reference.name);
}

std::string tag_file(const plan::Reference& reference) { return cat(":", reference.tag); }

std::string list_file(const std::string& digest) { return cat(hex_of(digest), ".", plan::machine_architecture); }

std::string layer_file_name(const std::string& diff_id) { return cat(hex_of(diff_id), ".zstd.sqfs"); }

}  // namespace berth::store
