// The user's folders on the node's disk, which root makes so that nobody can take their names.
#pragma once
#include <sys/types.h>

#include <string>

namespace berth::spank {

/// Makes UID, UID.containers and UID.counters (the user's, 0700) in the folder `parent`, where they are missing. What
/// is there is left as it is, and so is everything when `parent` is missing or others than root can rename things in
/// it. Says nothing of what it cannot do: the helper finds that out where it matters, and knows which folders the site
/// and the user have chosen.
void make_user_folders(const std::string& parent, uid_t uid, gid_t gid);

}  // namespace berth::spank
