// Finds a file of an image by its path, as a process in it would.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// The inode of `path`, with all symlinks followed inside the image; 0 when there is none. `..` at the root stays
/// there. Reads nothing but the index. `real`, where it is wanted, becomes the path of that inode without symlinks.
uint32_t find_path(const Index& index, const std::string& path, std::string* real = nullptr);

}  // namespace berth::squash
