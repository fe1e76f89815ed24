// What is read of the folder of one store: objects, found below it without following symlinks. Nothing is written.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/request/reference.hh"
#include "runtime/squash/index/index.hh"

namespace berth::store {

/// What a tag meant when its registry was last asked.
struct TagRecord {
    Digest digest;
    int64_t time = 0;  ///< seconds since 1970 of that answer
    std::string etag;  ///< as the registry sent it, may be empty
    /// What the user wrote, for a record of no registry's tag (see file_record.hh); else empty. Without line ends.
    std::string source = {};
};

/// Who else may write to an object of a shared store.
inline constexpr mode_t writable_by_others = 022;
/// "belongs to uid A, not to ...".
std::string wrong_owner(uid_t is, uid_t wanted);
/// Why an object of a shared store is refused, and what to do; empty: it is not. Pure.
std::string shared_object_problem(const struct stat& st, uid_t owner);

class Reader {
  public:
    /// Of a store of one's own, whose owner and mode were checked.
    Reader(std::string path, Fd root) : path_(std::move(path)), root_(std::move(root)) {}
    /// Of the store of `owner`, which others read (shared.hh): each object must be that account's or root's, closed to
    /// writers but its owner, and on the file system of the folder.
    Reader(std::string path, Fd root, uid_t owner)
        : path_(std::move(path)), root_(std::move(root)), owner_(owner) {}

    const std::string& path() const { return path_; }
    int root() const { return root_.get(); }
    /// "PATH/OBJECT", for messages.
    std::string shown(const std::string& object) const { return path_ + "/" + object; }

    /// An object ("layers/NAME"), for reading; empty when it is not here. Throws SysError, and Error for one that is
    /// refused.
    Fd find(const std::string& path, int flags) const;
    /// One of the folders of the layout, or a folder in it, for what lists.
    Fd directory(const std::string& name) const;

    /// The record of a tag; nothing when there is none or it cannot be understood.
    std::optional<TagRecord> find_tag(const plan::Reference& reference) const;
    /// What the file `name` of lists/ means on this or another architecture; nothing when it cannot be understood.
    std::optional<Digest> find_image_index(const std::string& name) const;
    bool has_manifest(const Digest& image) const;
    /// manifest.json, config.json or index of the image of a manifest digest; empty when it is not here.
    Fd find_document(const Digest& image, const std::string& file) const;
    /// The name in layers/ of a layer that is here, or that it would get.
    std::string layer_file(const Digest& diff_id) const;
    /// By the name in an index, or the other one that its layer may have. Empty when it is absent.
    Fd find_layer(const std::string& name) const;

  private:
    Fd find_checked(const std::string& path, int flags) const;
    void check(int fd, const std::string& path) const;

    std::string path_;
    Fd root_;
    std::optional<uid_t> owner_;
};

/// Bytes of manifest or config that are read at most.
inline constexpr size_t document_limit = 4 << 20;

}  // namespace berth::store
