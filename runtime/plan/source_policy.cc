#include "runtime/plan/source_policy.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::plan {

bool is_below(const std::string& path, const std::string& folder) {
    return folder == "/" || path == folder || path.starts_with(folder + "/");
}

bool is_judged(const SourcePolicy& policy, const Edit& edit) {
    const auto* mount = std::get_if<Mount>(&edit.action);
    return mount && mount->has_source() && !policy.everything && edit.origin.chooser() != Origin::Chooser::site;
}

void check_source(const SourcePolicy& policy, const Mount& mount, const Origin& origin, const std::string& leads_to) {
    if (policy.everything) return;
    if (origin.chooser() == Origin::Chooser::site_in_shared_folder) {
        auto place = policy.places.find(mount.source);
        if (place != policy.places.end() && place->second == leads_to) return;
    }
    if (std::ranges::any_of(policy.folders, [&](const std::string& folder) { return is_below(leads_to, folder); }))
        return;
    bool elsewhere = leads_to != normalised(mount.source);
    std::string doing = mount.layer ? " over the image" : cat(" at ", printable(mount.target, 4096));
    throw Error(cat(mount.layer ? "laying " : "mounting ", printable(mount.source, 4096), doing, " (", origin, "): ",
                    elsewhere ? cat("it leads to ", printable(leads_to, 4096), ", and ") : "",
                    policy.rule.empty() ? "nothing has been compared with policy.mount_sources" : policy.rule));
}

}  // namespace berth::plan
