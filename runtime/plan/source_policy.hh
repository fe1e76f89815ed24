// Where the sources of mounts may lie that the site did not choose (policy.mount_sources).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/edit.hh"

namespace berth::plan {

/// Goes with a plan to where its mounts are made, and is applied there to what was opened. The default allows nothing.
struct SourcePolicy {
    bool everything = false;
    std::vector<std::string> folders;  ///< below which sources may lie, without symlinks in them
    std::string rule;                  ///< "berth.conf:2: policy.mount_sources allows mounts from /scratch only"
    /// Of each source that the site chose in a shared folder: the path that it has when it is no symlink itself.
    std::map<std::string, std::string> places;
};

/// By whole components: "/data" has "/data/x" and not "/database".
bool is_below(const std::string& path, const std::string& folder);

/// True when the source of `edit` has to be compared with the policy: of the node, and chosen by the job, or by nobody.
bool is_judged(const SourcePolicy& policy, const Edit& edit);

/// Compares where the source of `mount` leads, a path without symlinks. Throws Error naming both, file and key.
void check_source(const SourcePolicy& policy, const Mount& mount, const Origin& origin, const std::string& leads_to);

}  // namespace berth::plan
