// Images that lie unpacked in the store: unpacked/<hex>/rootfs, where <hex> is of the manifest's digest, or of another key for an image file.
#pragma once
#include <functional>
#include <string>

#include "runtime/store/store.hh"

namespace berth::store {

/// The path of the root file system of `digest`; empty when it is not here. Hold a lease on `digest` first: it keeps it from being removed.
std::string unpacked_path(const Store& store, const std::string& digest);

/// Has `fill` write the root file system into an empty directory, and publishes it whole, by a rename; returns its path. Whoever was quicker wins.
std::string add_unpacked(const Store& store, const std::string& digest, const std::function<void(int directory)>& fill);

/// Removes it; nothing when it is not here. For collect(), which holds the claim.
void remove_unpacked(const Store& store, const std::string& digest);

/// The keys of all, as digests.
std::vector<std::string> unpacked_digests(const Store& store);

/// A key for the file behind `fd`, in the form of a digest: another one when the file is another one or was changed.
std::string file_key(int fd);

}  // namespace berth::store
