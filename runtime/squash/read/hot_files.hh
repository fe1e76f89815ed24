// Which files of an image are worth to be kept unpacked on the node. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/words.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/prefetch_list.hh"

namespace berth::squash {

/// An inode of the image, as a container shows it.
struct HotObject {
    uint32_t inode = 0;
    std::string path = {};  ///< from the root, without a slash at its start; "." for the root
    uint64_t size = 0;      ///< 0 for a directory
    uint32_t mode = 0;      ///< type and permission bits that are shown
    int64_t mtime = 0;
    std::string target = {};  ///< of a link
    bool complete = false;    ///< of a directory: all that the image has in it is there
};

struct HotFiles {
    std::vector<HotObject> directories;  ///< in which the files are: each after the one that it is in, the root first
    std::vector<HotObject> files;        ///< in the order of the list; then what completes directories, and links
    std::vector<std::string> missing;    ///< paths that the image does not have, in directories that are not complete
    uint64_t bytes = 0;                  ///< of all files
};

/// What the rest of a directory may have, all that is below it included, for it to be completed: the overlay asks the
/// image for each listing of a directory that it has from two layers, and for each name that the upper one has not.
inline constexpr uint64_t hot_rest_bytes = 256 << 10;
inline constexpr uint32_t hot_rest_objects = 256;

/// The whole files of a list, at most `most` bytes; the rest of directories of which they are nearly all; in other
/// directories the links to them, and the names that the list says are missing. A file of the node shows all that a
/// container sees of the image's: so no file with several names, with attributes (xattrs), with holes, with a
/// set-user-ID or set-group-ID bit, or that its owner may not read; nor one in a directory with attributes, or that its
/// owner may not use.
HotFiles hot_files(const Index& index, const PrefetchList& list, plan::ImageModes modes, uint64_t most);

/// Whether what is kept, `has` bytes, is so much less than what is wanted now that it is written anew.
bool is_worth_writing(uint64_t has, uint64_t wanted);

}  // namespace berth::squash
