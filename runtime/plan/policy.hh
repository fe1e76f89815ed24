// What the site lets its users do ([policy] in the site file), compared with what is asked for. Pure. It guides those
// who use berth; it is no wall around those who bring a runtime of their own.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/plan/host_facts.hh"
#include "runtime/plan/source_policy.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

using RealPaths = std::map<std::string, std::string>;

/// The paths that check_image and judge_sources compare, which want to be told where these lead: none where the site
/// allows every path.
std::vector<std::string> policy_paths(const Site& site, const Reference& image);
std::vector<std::string> policy_paths(const Site& site, const std::vector<Edit>& edits);

/// True when a key names a group, so that HostFacts::groups is needed.
bool asks_for_groups(const Site& site);

/// Refuses an image: its registry, a tag where a digest is required, its path. `image` has an absolute path, if any.
/// Throws Error naming file and key.
void check_image(const Site& site, const Reference& image, const RealPaths& real_paths);

/// Of an image file or a directory with one.
struct ImageOwner {
    std::string user;  ///< empty: the number has no name
    uint32_t uid = 0;
    uint32_t mode = 0;  ///< st_mode
};

/// Whether an image is a file or directory, and the site says who must own it.
bool asks_for_owner(const Site& site, const Reference& image);

/// Refuses one that belongs to somebody else, or that others than its owner may write to. Throws Error naming file and
/// key.
void check_image_owner(const Site& site, const Reference& image, const ImageOwner& owner);

/// Whether images of files may be of every path and owner.
bool allows_all_files(const Site& site);

/// True when mounts may come from everywhere.
bool allows_all_sources(const Site& site);

/// Compares all that the edits of a plan mount of the node, whatever they came of. The result goes with the plan: its
/// mounts are compared once more when they have been opened. Throws Error naming the mount, file and key.
SourcePolicy judge_sources(const Site& site, const std::vector<Edit>& edits, const RealPaths& real_paths);

/// Refuses what the caller may not be or have. Throws Error naming file and key.
void check_request(const Site& site, const Request& request, const Caller& caller, const HostFacts& host);

/// Whether the caller may be root inside, or have a root file system that he can write to.
/// Throws Error where the site does not let users ask for --container-nested.
void check_nested(const Site& site);

bool may_remap_root(const Site& site, const Caller& caller, const HostFacts& host);
bool may_write(const Site& site, const Caller& caller, const HostFacts& host);

}  // namespace berth::plan
