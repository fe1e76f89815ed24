// What ldconfig would find in folders of the container once a specification's mounts and links are made: the hook
// update-ldcache of CDI specifications, without running a program of the node in the container.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

/// What the container will have where libraries can be, with normal paths.
struct LibraryPlaces {
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    std::vector<std::string> folders;  ///< that are looked into
    Pairs mounts;                      ///< source, target; an empty source: a new file system
    Pairs links;                       ///< path, target
};

/// Of one folder.
struct FoundLibraries {
    std::string folder;
    LibraryPlaces::Pairs links;                  ///< path, target: SONAMEs beside mounted files
    std::vector<plan::CachedLibrary> libraries;  ///< sorted by name
};

/// The libraries in the folders of `places`, by their SONAMEs: what is mounted there, what lies in a folder that is
/// mounted or that the image has besides the usual ones (whose libraries its cache has already), and links that are
/// made. A folder without any is left out.
std::vector<FoundLibraries> find_libraries(const LibraryPlaces& places, const Host& host, const Rootfs& image);

}  // namespace berth::hooks
