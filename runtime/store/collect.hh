// Removing from a store what nobody needs: the decision as a pure function, and the acts, each of which may be the last
// one before a kill.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/inventory.hh"

namespace berth::store {

struct KeepLimits {
    uint64_t bytes = 0;  ///< on disk, of the whole store; 0: no limit
    int64_t age = 0;     ///< seconds since the last use; 0: no limit
    /// Of a store that others read, who leave no trace: what has a tag stays, and the rest for `age`, or untagged_age,
    /// after a tag last meant it. `bytes` counts for nothing.
    bool by_tag = false;
};

/// An image without a tag (the tag means another one by now, or it was pulled by digest) goes after so many seconds
/// without use in any case.
inline constexpr int64_t untagged_age = 30 * 24 * 3600;
/// An image that was used so recently stays: its pull may have ended just now, and its start be under way.
inline constexpr int64_t fresh_age = 10 * 60;
/// What is younger stays where other hosts' locks may be invisible.
inline constexpr int64_t uncertain_age = 24 * 3600;

/// The images to remove, as positions in `inventory.images`: unused for too long, then those used the longest time ago
/// until the rest fits. Never one that is in use, pinned or fresh. `now` is in seconds since 1970.
std::vector<size_t> images_to_remove(const Inventory& inventory, const KeepLimits& limits, int64_t now);

/// What was removed, or would be.
struct Removed {
    std::vector<StoredImage> images;
    size_t layers = 0;
    uint64_t bytes = 0;  ///< on disk
};

/// Removes the images that the limits say (by_tag, in a store that is offered), the layers of no image, tags that mean
/// nothing any more, and what dead processes left. `dry`: only tells. While pulls go on nothing is removed: the call
/// waits for their end, or gives nothing when `wait` is false. Throws Error.
std::optional<Removed> collect(const Store& store, const KeepLimits& limits, bool dry, bool wait);

/// Removes one image with its tags, and the layers that no other image has. Waits for pulls to end. Throws Error when
/// it is in use.
Removed remove_image(const Store& store, const Digest& digest);

/// Removes a tag and nothing else. Waits for pulls to end.
void remove_tag(const Store& store, const StoredTag& tag);

/// Removes what is damaged, so that the next pull fetches it again; what runs has its files open. The layer only if it
/// is still the file `fd`.
void discard_image(const Store& store, const Digest& digest);
void discard_layer(const Store& store, const std::string& file, int fd);

}  // namespace berth::store
