// What is in a store, as plain values: for people who look, and for what decides about removals.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::store {

struct StoredTag {
    plan::Reference reference;
    Digest digest;
    std::string source = {};  ///< as in TagRecord

    /// What brings the image again: the source when there is one, else the tag.
    std::string text() const { return source.empty() ? reference.text() : source; }

    /// True for what the store remembers by an Id alone (file_record.hh): goes with its image, but nobody can call the
    /// image by it.
    bool is_record() const { return reference.registry.starts_with("_") && source.empty(); }
};

struct StoredLayer {
    std::string file;    ///< name in layers/
    uint64_t bytes = 0;  ///< on disk
    int64_t time = 0;    ///< of its last pull
    size_t images = 0;   ///< that have it
};

struct StoredImage {
    Digest digest;  ///< of the manifest
    std::vector<StoredTag> tags = {};
    std::vector<StoredTag> records = {};  ///< see StoredTag::is_record
    std::vector<size_t> layers = {};  ///< positions in Inventory::layers, each once, without those that are missing
    uint64_t own_bytes = 0;      ///< on disk, of manifest, config and index
    int64_t pulled = 0;          ///< seconds since 1970
    int64_t used = 0;            ///< last start or pull
    bool in_use = false;         ///< somebody holds a lease
    std::vector<std::string> pins = {};  ///< see Store::pin_holders
};

/// An image that has started before it is here (partial.hh).
struct ComingImage {
    Digest digest;  ///< of the manifest
    std::vector<StoredTag> tags = {};
    uint64_t bytes = 0;       ///< of all its layer files
    uint64_t here_bytes = 0;  ///< of them that have come, or were here before
    uint64_t disk_bytes = 0;  ///< on disk, without layers that are the store's
};

/// A file of lists/: an image index that means an image on one architecture.
struct StoredImageIndex {
    std::string file;
    Digest digest;
    Digest image;
};

struct Inventory {
    std::vector<StoredImage> images;  ///< the last used first
    std::vector<StoredLayer> layers;
    std::vector<ComingImage> coming;
    std::vector<StoredImageIndex> image_indexes;
    uint64_t hot_bytes = 0;             ///< on disk, of files of images that are kept unpacked
    std::vector<StoredTag> stray_tags;  ///< whose image is not here

    /// Bytes on disk of an image with all its layers, and of those that it shares with others.
    uint64_t bytes(const StoredImage& image) const;
    uint64_t shared_bytes(const StoredImage& image) const;
    /// Of everything.
    uint64_t bytes() const;
    /// The image that a reference, a digest (`sha256:` may be left out) or at least 12 digits of one mean; null when
    /// none is here.
    const StoredImage* find(const std::string& text) const;
};

/// Objects that are removed meanwhile may be missing in the result. Layers are matched to images by the digests in the
/// images' configs: what the text mentions counts as used, so that no damage of an index costs a layer.
Inventory take_inventory(const Store& store);
/// Of a shared store, of which nobody knows who uses it: neither uses nor pins.
Inventory take_inventory(const Reader& store);

}  // namespace berth::store
