// What the site's policy has to know of the host: where paths lead, and which groups the caller is in. Looked up only
// for a policy that asks.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/policy.hh"

namespace berth {

/// Where those of `paths` lead that exist.
plan::RealPaths real_paths(const std::vector<std::string>& paths);

/// The names of this process's groups.
std::vector<std::string> groups_of_this_process();

/// plan::check_image with what it has to know of this host. Throws Error.
void check_image_here(const plan::Site& site, const plan::Reference& image);

/// The same for the file or directory that was opened for `image`, wherever its path leads by now. Throws Error.
void check_opened_image(const plan::Site& site, const plan::Reference& image, int file);

/// Refuses the file that was opened at `path` where its owner has no image files by the policy. Throws Error.
void check_owner_of_file(const plan::Site& site, const std::string& path, int file);

}  // namespace berth
