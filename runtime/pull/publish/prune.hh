// Removes from a repository what is published of images that are in no registry any more.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/oci/registry/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"

namespace berth::pull {

struct Pruned {
    size_t kept = 0;
    std::vector<std::string> removed;  ///< tags
    std::vector<std::string> left;     ///< a line for each artifact of whose image nothing is known
};

/// The options for a repository, its login among them.
using RegistryFor = std::function<oci::RegistryOptions(const plan::Reference& repository)>;

/// Looks for the image of each artifact in the repository, and removes the artifact, its signatures and its place in
/// the list of referrers where the image's own repository answers and no longer has it. `dry`: only tells. Throws Error
/// when the repository cannot be listed, or lets nothing be removed.
Pruned prune_published(const plan::Reference& repository, const RegistryFor& registry, bool dry, Meter& meter);

}  // namespace berth::pull
