// From what the user wrote to an image that can be started: through the store, a pull, or a file or directory used as
// it lies.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/config/site.hh"
#include "runtime/images/opened.hh"
#include "runtime/plan/container.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/request.hh"

namespace berth {

/// What is known of the image's tag beyond this node.
struct JobTag {
    std::optional<Digest> digest = {};  ///< what it means for the whole job
    /// where the step's nodes share the image, and without a digest agree on one (request/frozen.hh); empty: this node
    /// finds out and pulls for itself
    std::string agreement = {};
};

/// Opens `image`. A path of it is relative to the caller's working directory. Runs berth-pull only when the store
/// cannot answer alone. A tag of a registry means what `tag` says, and the store remembers that as its meaning. Throws
/// Error with the line of whatever failed.
OpenedImage open_image(const plan::Reference& image, const plan::Caller& caller, const plan::Site& site,
                       const PullWatch& watch, const JobTag& tag = {});

/// What a container of `image`, which was opened as that, is recorded to be made of: the image, with its path absolute,
/// and its digest or file. The rest of the record is empty.
plan::ContainerRecord record_of(const plan::Reference& image, const OpenedImage& opened, const plan::Caller& caller);

/// Opens the image of a named container again, which must be the very one it was made of. Throws Error that says how to
/// bring it back.
OpenedImage open_image_again(const plan::ContainerRecord& record, const plan::Caller& caller, const plan::Site& site,
                             const PullWatch& watch);

/// For ComingLayers::interrupted, where open_image() puts it with a copy of its watch, which must last as long:
/// true when what is waited for, for a part of an image that comes, is wanted no more. Says how long that takes.
std::function<bool()> attended_wait(const PullWatch& watch, std::shared_ptr<ChunkMap> map, unsigned stall_time);

/// Changes when a file is replaced or written to: "SIZE MTIME_NS INODE"; "directory" for a directory, whose content
/// nobody can tell. Throws SysError.
std::string file_identity(const std::string& path);

}  // namespace berth
