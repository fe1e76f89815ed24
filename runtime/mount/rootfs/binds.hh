// Mounts taken from the node and attached in the container, by descriptors from end to end.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/mount/rootfs/fresh_directories.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/plan/plan.hh"

namespace berth::mount {

/// A mount that is not attached anywhere yet; empty for an edit that is no bind, or whose optional source has gone.
struct Source {
    Fd tree;
    bool directory = false;
    /// A directory without a tree comes later: what a file server has to serve first.
    bool is_there() const { return tree || directory; }
};

/// Whether `mount` is of a source, and no new file system.
bool comes_from_elsewhere(const plan::Mount& mount);

/// A clone of what is at `place` (O_PATH), with the flags of `mount`. Throws SysError.
Source source_at(int place, const plan::Mount& mount);

/// Opens the source of every bind in `edits` as the caller sees it, clones it and gives it its flags (nosuid, nodev
/// save devices, ro, noexec; private). One element an edit. Must come before anything is mounted over the node's
/// directories. What is opened for a source that `policy` judges is compared with it, whatever its path led to before.
/// `own_proc` is what is mounted for an edit of the kind proc, which only a process of that pid namespace can make.
/// Throws Error naming source, target and origin.
std::vector<Source> take_sources(const std::vector<plan::Edit>& edits, const plan::SourcePolicy& policy,
                                 Fd own_proc = {});

/// Attaches one bind or new file system in `root`, making the mount point when it is missing. `taken` is what
/// take_sources() has for it; a bind from inside is taken here. Throws Error.
void attach(Root& root, const plan::Mount& mount, const plan::Origin& origin, const Source& taken,
            FreshDirectories& fresh);

/// "mounting SOURCE at TARGET (ORIGIN)", or what is done to a layer, for messages.
std::string described(const plan::Mount& mount, const plan::Origin& origin);

}  // namespace berth::mount
