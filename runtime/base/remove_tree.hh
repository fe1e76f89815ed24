// Removes directories with all that is in them, whatever their modes and however deep they are.
#pragma once
#include <string>

namespace berth::sys {

/// Removes the directory `name` in `parent` and everything below it; nothing when it is not there. Follows no symlink;
/// directories of the caller that he may not read or write get the modes for it. Their depth costs neither stack nor
/// descriptors: what is nested is moved up first. May be called again after a kill. Throws SysError naming `what`.
void remove_tree(int parent, const std::string& name, const std::string& what);

}  // namespace berth::sys
