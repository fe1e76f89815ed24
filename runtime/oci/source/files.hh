// The files that an image lies in on this node, found by name in a directory or in a tar archive, and read in parallel.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/oci/layer/tar_header.hh"
#include "runtime/oci/sink.hh"

namespace berth::oci {

/// A file in the directory or archive.
struct Piece {
    std::shared_ptr<const Fd> file;
    uint64_t offset = 0;
    uint64_t size = 0;
    std::string name;  ///< for messages
    /// Of a sparse file of an archive: what is stored, one after another from `offset` on; in order, and within `size`.
    std::shared_ptr<const std::vector<SparsePiece>> stored = {};
};

class LargeWindows;

/// Safe to use from many threads.
class Files {
  public:
    virtual ~Files() = default;
    /// The regular file called `path`, which is relative; nothing when there is none. Throws Error for what is there
    /// and is no regular file.
    virtual std::optional<Piece> find(const std::string& path) const = 0;
    /// The whole as one tar, when it is an archive of a root file system, not of an image; nothing for a folder.
    virtual std::optional<Piece> root_file_system() const { return std::nullopt; }
    /// Of a root file system, the first name that would be a whiteout in a layer; empty where none is known.
    virtual std::string first_whiteout() const { return {}; }
};

/// Gives an empty file without a name, open for reading and writing.
using Scratch = std::function<Fd()>;

/// Opened below the directory, following no symlink. `what` names the image in errors.
std::shared_ptr<const Files> open_folder(const std::string& path, const std::string& what);

/// Told how many more bytes have been gone through, for those who wait; may be empty.
using Advance = std::function<void(uint64_t bytes)>;

/// A tar archive, of which only the headers are read. A compressed one (whatever libarchive knows; recognised by
/// content) is unpacked to a scratch file first. Links are followed inside the archive. `advance` comes to the size of
/// `file`. Throws Error for one that is malformed, is compressed more than once, or has more than archive_entry_limit
/// entries.
std::shared_ptr<const Files> open_archive(Fd file, const std::string& what, const Scratch& scratch,
                                          const Advance& advance = {}, LargeWindows* windows = nullptr);

/// Opens the file for open_archive. Throws Error for anything but a regular file.
Fd open_archive_file(const std::string& path, const std::string& what);

inline constexpr size_t archive_entry_limit = 100'000;

/// All bytes of a piece that has at most `limit`.
std::string read_piece(const Piece& piece, size_t limit, const std::string& what);
/// The bytes in order, in parts of at most 256 KiB.
void stream_piece(const Piece& piece, const Sink& sink, const std::string& what);

/// Does `work`; an Error that does not start with `what` comes out as "WHAT: DOING: ERROR".
void naming(const std::string& what, const char* doing, const std::function<void()>& work);

}  // namespace berth::oci
