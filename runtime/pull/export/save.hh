// Writes a container's merged tree, its image with what it wrote over it, as one squashfs or SIF file.
#pragma once
#include <optional>
#include <string>

#include "runtime/pull/export/import.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// What a container is made of. Either `digest` or `image_file` is set.
struct SaveRequest {
    std::string store;       ///< location of the store that has the image
    std::optional<Digest> digest;  ///< of the image's manifest
    std::string reference;   ///< of the image, for people
    std::string image_file;  ///< a squashfs or SIF file, or a directory with a root file system
    int upper = -1;          ///< the upper directory of the container's overlay, open; -1: the image as it is
    std::string name;        ///< of the container, for messages
    /// The modes that the container has shown: where it has written none but these, the file gets those of the image.
    plan::ImageModes modes = plan::ImageModes::image;
};

/// Makes the file `path`: blocks of the image are copied, what the container wrote is packed, config and origin of the
/// image are carried along. A container that runs is saved as it is while it is read: stop what writes, where files
/// belong together. The file appears whole and durable, or not at all. Starts threads. Throws Error.
void save_container(const SaveRequest& request, const std::string& path, const ImportOptions& options);

}  // namespace berth::pull
