// Directories of a root file system that belong to somebody else. The overlay cannot copy them up: it would have to
// give the copy an owner that the user namespace does not know, so a start could make nothing in them.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/plan.hh"

namespace berth::mount {

/// A path in the container where a start may make something.
struct Change {
    std::string path;            ///< absolute
    bool also_if_there = false;  ///< what is there is replaced, too
    bool follows_last = true;    ///< where the path is a symlink, what is made is made where it leads
};

/// What `plan` may make in the root file system, but for what goes into a mount that it makes before.
std::vector<Change> changes_of(const plan::Plan& plan);

/// Makes in `upper`, the upper directory of an overlay that is to be mounted, the directories of `image` (its lower
/// one) that `changes` need, where one of them is not the caller's: they then belong to the caller, with the mode and
/// time that they have. What `upper` has already stays. What the caller cannot look into is passed over. Throws
/// SysError.
void take_over_directories(int image, int upper, const std::vector<Change>& changes);

}  // namespace berth::mount
