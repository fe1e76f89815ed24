// What hooks may look at of an image: few files, by path, links followed inside of it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index/find.hh"

namespace berth {
struct ContainerImage;
}

namespace berth::hooks {

class Rootfs {
  public:
    virtual ~Rootfs();
    virtual bool exists(const std::string& path) const = 0;
    /// The path of an object with all links followed; nothing when it is missing.
    virtual std::optional<std::string> resolved(const std::string& path) const = 0;
    /// The names in a directory, sorted; none when it is missing.
    virtual std::vector<std::string> list(const std::string& path) const = 0;
    /// Up to `size` bytes at `offset`; fewer at the end, none when it cannot be read.
    virtual std::string read(const std::string& path, uint64_t offset, size_t size) const = 0;
};

/// An image that is served. `index` and `layers` (in the order of its layers) stay the caller's, and open.
class ServedRootfs : public Rootfs {
  public:
    ServedRootfs(const squash::Index& index, const std::vector<Fd>& layers) : index_(index), layers_(layers) {}
    bool exists(const std::string& path) const override { return squash::find_path(index_, path) != 0; }
    std::optional<std::string> resolved(const std::string& path) const override;
    std::vector<std::string> list(const std::string& path) const override;
    std::string read(const std::string& path, uint64_t offset, size_t size) const override;

  private:
    const squash::Index& index_;
    const std::vector<Fd>& layers_;
};

/// A root file system that is a directory of the node.
class DirectoryRootfs : public Rootfs {
  public:
    explicit DirectoryRootfs(const std::string& path);
    bool exists(const std::string& path) const override;
    std::optional<std::string> resolved(const std::string& path) const override;
    std::vector<std::string> list(const std::string& path) const override;
    std::string read(const std::string& path, uint64_t offset, size_t size) const override;

  private:
    Fd directory_;
};

/// The files of an image, which has to outlive them. Throws SysError for a directory that cannot be opened.
std::unique_ptr<Rootfs> rootfs_of(const ContainerImage& image);

}  // namespace berth::hooks
