// Removal in two steps, for file systems where an open file of another host does not outlive its removal: an object is
// renamed, so that nothing new opens it, and removed later.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/store/store.hh"

namespace berth::store {

/// The object is gone from its folder at once, by a rename into tmp/; what is in it follows, or is swept.
void remove_object(const Store& store, const std::string& folder, const std::string& name);

/// Takes an object of images/ or layers/ its name. Its age counts from now.
void retire(const Store& store, const std::string& folder, const std::string& name);
bool is_retired(const std::string& name);

struct RetiredObjects {
    size_t layers = 0;
    uint64_t bytes = 0;  ///< on disk, of layers
};
/// Removes what was retired at least `age` seconds before `now`; `dry`: only tells.
RetiredObjects remove_retired(const Store& store, int64_t age, int64_t now, bool dry);

}  // namespace berth::store
