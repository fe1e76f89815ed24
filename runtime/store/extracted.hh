// Images that lie in the store in another form: unpacked/<hex>/rootfs, with the modes of mount.modes = "enroot"
// unpacked/<hex>.enroot/rootfs, where <hex> is of the manifest's digest, or of another key for an image file; of such a
// file also its index, unpacked/<hex>.<form>, and what was verified of it, unpacked/<hex>.verified; and SIF files of
// registries, unpacked/<hex>.sif, where it is of the artifact's manifest.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/config/words.hh"
#include "runtime/store/store.hh"

namespace berth::store {

/// The path of the root file system of `digest` with these modes; empty when it is not here. Hold a lease on `digest`
/// first: it keeps it from being removed.
std::string extracted_path(const Store& store, const Digest& digest, plan::ImageModes modes);

/// Has `fill` write the root file system into an empty directory, and publishes it whole, by a rename; returns its
/// path. Whoever was quicker wins.
std::string add_extracted(const Store& store, const Digest& digest, plan::ImageModes modes,
                          const std::function<void(int directory)>& fill);

/// The path of the SIF file whose artifact has this manifest; empty when it is not here. Hold a lease as for
/// extracted_path().
std::string sif_path(const Store& store, const Digest& manifest);

/// Has `write` bring it into an empty file, and publishes it whole, by a rename.
void add_sif(const Store& store, const Digest& manifest, const std::function<void(int file)>& write);

/// What remember_verified() has kept of the image file with this key, or nothing.
std::optional<std::string> verified_text(const Store& store, const Digest& key);

/// Keeps a text about an image file whose signatures were verified. Published by a rename.
void remember_verified(const Store& store, const Digest& key, const std::string& text);

/// The index of the image file with this key, open for reading; empty when it is not here. `form`: what it shows, and
/// the release of what builds it.
Fd open_file_index(const Store& store, const Digest& key, const std::string& form);

/// Publishes it whole, by a rename. After a crash of the node it may be there and damaged, which Index::open() sees.
void add_file_index(const Store& store, const Digest& key, const std::string& form, std::string_view bytes);

/// Removes all forms of it; nothing when there is none. For collect(), which holds the claim.
void remove_extracted(const Store& store, const Digest& digest);

/// The keys of all that is there in some form, as digests.
std::vector<Digest> extracted_digests(const Store& store);

/// A key for the file behind `fd`, in the form of a digest: another one when the file is another one or was changed.
Digest file_key(int fd);

}  // namespace berth::store
