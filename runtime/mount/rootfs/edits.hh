// Executes the edits of a plan on a root: mounts, unmounts, symlinks, directories, account lines.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "runtime/mount/rootfs/binds.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/plan/plan.hh"

namespace berth::mount {

/// The largest passwd, group or loader's configuration that lines are added to, in bytes.
constexpr size_t account_file_limit = 16 << 20;

struct EditMeans {
    std::set<size_t> done = {};  ///< positions of edits that are not to be done any more
    /// a directory of a tmpfs that the container's own directories in memory may share, or -1
    int memory = -1;
};

/// Does `edits` in order. `sources` is what take_sources() made of them. Throws Error naming the edit's object and
/// origin.
void apply_edits(Root& root, const std::vector<plan::Edit>& edits, const std::vector<Source>& sources,
                 const EditMeans& means = {});

/// Makes sure that processes can start in `path`: when it is `required` it must be there (Error with exit code 127, or
/// 126 when it is no directory that can be entered), else it is made when missing.
void prepare_workdir(const Root& root, const std::string& path, bool required);

}  // namespace berth::mount
