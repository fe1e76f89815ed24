// Trees for file servers that show a squashfs file as it is: with its owners, and with attributes that an overlay would
// take for its own.
#pragma once
#include <sys/types.h>

#include "runtime/squash/index/tree.hh"

namespace berth::squash {

/// Gives everything in the tree to `uid` and `gid`, and takes away the attributes that containers are not shown
/// (shows_xattr).
void make_plain(Tree& tree, uid_t uid, gid_t gid);

/// True when make_plain() would change nothing and there are no device nodes, of which an overlay takes some for names
/// that were removed. Pure.
bool is_plain(const Tree& tree, uid_t uid, gid_t gid);

}  // namespace berth::squash
