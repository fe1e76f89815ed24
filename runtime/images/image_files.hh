// Small files of an image, read without running anything of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/mount/container_image.hh"

namespace berth {

class ImageFiles {
  public:
    /// Of what open_image_file() has opened, which has to outlive this. Throws Error where it cannot be read.
    explicit ImageFiles(const ContainerImage& image);

    /// The content of the regular file at the absolute `path`, links followed within the image; empty where there is
    /// none, where it is larger than 1 MiB, and where it cannot be read.
    std::string text(const std::string& path) const;

    /// The names in the directory at `path`, sorted by bytes; none where there is no such directory.
    std::vector<std::string> names(const std::string& path) const;

  private:
    uint32_t find(const std::string& path) const;

    const ContainerImage& image_;
    Fd root_;  ///< of an image that is a directory
};

}  // namespace berth
