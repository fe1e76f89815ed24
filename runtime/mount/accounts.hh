// Account lines without the file server: what is to stand in an image's /etc/passwd is known before anything is mounted.
#pragma once
#include <set>
#include <vector>

#include "runtime/plan/plan.hh"
#include "runtime/squash/data.hh"
#include "runtime/squash/index.hh"

namespace berth::mount {

/// Puts files with the account lines of `edits` into `upper`, the empty directory of an overlay that is not mounted yet, as a write through the overlay would
/// leave them there; through it each costs a dozen requests to the server, at every start. Returns the positions of the edits that are done with it.
/// Left to apply_edits() is what is no plain file in plain directories of the image, or may get something mounted over it. Throws Error.
std::set<size_t> write_accounts(const squash::Index& index, squash::DataReader& reader, int upper, const std::vector<plan::Edit>& edits);

}  // namespace berth::mount
