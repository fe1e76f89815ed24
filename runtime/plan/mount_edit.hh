// A mount that somebody asks for in the form of --container-mounts, as an edit.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/plan/edit_list.hh"
#include "runtime/request/mount_request.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

/// Adds it as the site's defaults complete it; `from` is the folder of a relative source. Throws Error naming `origin`
/// for a target that no mount may have.
void add_mount(EditList& edits, const MountRequest& wanted, const std::string& from, const Site& site,
               const Origin& origin);

/// The same mount with its source made absolute: from the caller's working directory or home.
MountRequest with_absolute_source(MountRequest wanted, const Caller& caller);

/// All that such a mount is, to compare it with another one.
std::string mount_key(const MountRequest& mount);

}  // namespace berth::plan
