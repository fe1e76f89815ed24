// From tar entries to entries of a squashfs file: names made safe, limits kept, whiteouts recognised.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "runtime/oci/layer/tar.hh"
#include "runtime/oci/limits.hh"
#include "runtime/squash/write/layer_sink.hh"

namespace berth::oci {

/// The path below the root that an archive's name stands for, "" for the root itself: absolute names count from the
/// root, "." and empty components go, ".." takes the name before it away. Throws Error when it climbs out of the root,
/// is empty, longer than 4096 bytes, deeper than 1024, or has a component of over 255 bytes.
std::string normalised_name(std::string_view name);

enum class NameKind {
    plain,
    whiteout,  ///< `.wh.NAME` or `.wh..wh..opq`: removes things of lower layers
    ignored,   ///< other `.wh..wh.*`: AUFS kept its own books there
};

/// What a normalised path is. Throws Error for a bare `.wh.`, for the whiteouts of "." and "..", and for a name below a
/// whiteout.
NameKind kind_of_name(std::string_view path);

/// Feeds a LayerSink. Nothing of an archive ever touches the file system, so no name can escape to it; what names
/// mean is settled here:
/// - A parent that is a symlink of the same layer is followed inside the layer's tree when it leads to a directory
///   there, as a tar that unpacks in a chroot does; otherwise it becomes a directory. Docker and umoci also follow
///   symlinks of lower layers or make
///   directories at the target, which depends on how they store layers; here a layer means the same whatever is below
///   it.
/// - The last of several entries of one name wins. Whiteouts are stored as empty files for the later merge.
/// - Device nodes are counted and skipped, and so are hard links to them. FIFOs and setuid bits are kept: they are data
///   here, mounts make them harmless.
/// - AUFS kept the bytes of files with several names in `.wh..wh.plnk`, and layers of its time have them there alone.
///   Hard links to these are the files, as docker reads them; the folder itself goes.
/// - Of the xattrs only user.* is kept, and not user.overlay.*, which would steer the overlay mounted over the image.
class Unpacker : public TarSink {
  public:
    Unpacker(squash::LayerSink& writer, const LayerLimits& limits) : writer_(writer), limits_(limits) {}

    void entry(const TarEntry& entry) override;
    void data(std::string_view bytes) override;
    void zeros(uint64_t size) override;
    void end_entry() override;
    /// To be called once, after the last entry.
    void finish();

    uint64_t skipped_devices() const { return skipped_devices_; }

  private:
    void count(const TarEntry& entry);
    void leave_out(const std::string& path);
    void add(const TarEntry& entry, const std::string& path);
    squash::Attributes attributes(const TarEntry& entry);
    std::string placed(const TarEntry& entry, const std::string& path) const;

    squash::LayerSink& writer_;
    LayerLimits limits_;
    bool in_file_ = false;  // the entry's bytes are wanted
    std::set<std::string> left_out_;  // names of what has no place in the tree, for hard links to it
    uint64_t left_out_bytes_ = 0;
    uint64_t entries_ = 0, file_bytes_ = 0, xattr_bytes_ = 0, skipped_devices_ = 0;
};

}  // namespace berth::oci
