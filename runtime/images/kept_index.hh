// The index of a squashfs or SIF file, kept from one start of the file to the next.
#pragma once
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>

#include "runtime/config/site.hh"
#include "runtime/request/request.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/store/store.hh"

namespace berth {

/// A file has another index as an image than as data that are mounted in a container.
enum class IndexOf { image, data };

/// The index of the file behind `file`: the one that `store` has of the file as it is now, else that which `build`
/// makes of it (build_index()'s bytes), which is then kept there. Null: nothing is kept. `now`: seconds since 1970, by
/// which it is told that a file has changed only just now, of which nothing is kept. Throws what `build` throws; it is
/// no error that a store cannot be read or written to.
squash::Index kept_index(int file, IndexOf what, const store::Store* store, const std::function<std::string()>& build,
                         int64_t now = std::time(nullptr));

/// The user's store where such indexes are kept. None where a signature policy wants an index to be of the bytes that
/// were judged, and where the user has no store yet: nobody gets one for it.
std::optional<store::Store> store_of_indexes(const plan::Site& site, const plan::Caller& caller);

}  // namespace berth
