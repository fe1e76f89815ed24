// The content-addressed store of one user: immutable layers and images that appear by rename, and the tags that name
// them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/lock.hh"
#include "runtime/request/reference.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/store/lease.hh"

namespace berth::store {

/// What a tag meant when its registry was last asked.
struct TagRecord {
    Digest digest;
    int64_t time = 0;  ///< seconds since 1970 of that answer
    std::string etag;  ///< as the registry sent it, may be empty
    /// What the user wrote, for a record of no registry's tag (see file_record.hh); else empty. Without line ends.
    std::string source = {};
};

/// The files of one image: manifest and config are the registry's bytes, index is build_index().
struct ImageFiles {
    std::string manifest;
    std::string config;
    std::string index;
};

/// A file without a name until it is published: it vanishes with its descriptor, so that a killed process leaves
/// nothing. On file systems without O_TMPFILE it has a name in tmp/, held by flock, which the destructor or the next
/// sweep removes.
class [[nodiscard]] NewFile {
  public:
    NewFile(Fd directory, std::string name, Fd file);
    NewFile(NewFile&&) = default;
    NewFile& operator=(NewFile&&) = default;
    ~NewFile();

    /// The descriptor, open for reading and writing.
    int fd() const { return file_.get(); }

  private:
    friend class Store;
    Fd directory_;  ///< tmp/
    std::string name_;
    Fd file_;
};

/// Layout: layers/<hex of diff_id>.sqfs (older ones: .zstd.sqfs, whatever the codec),
/// images/<hex of manifest digest>/{manifest.json,config.json,index},
/// lists/<hex of image index digest>.<architecture>, refs/<registry>/<name>/:<tag>, leases/<hex of manifest digest>,
/// pins/<hex of manifest digest>.<anything>, unpacked/<hex of manifest digest or of another
/// key>{/rootfs/,.<uid>.<gid>.sqfs}, locks/, tmp/. Objects are opened below
/// the store's directory without following symlinks.
class Store {
  public:
    /// Opens the store, making the directory (mode 0700) when it is missing. Throws Error with the remedy when it is a
    /// symlink, belongs to someone else, or can be written by others.
    static Store open(const std::string& location);
    /// For people.
    const std::string& path() const { return path_; }
    /// What open() takes to open the same store in another process.
    const std::string& location() const { return path_; }

    /// The record of a tag; nothing when there is none or it cannot be understood.
    std::optional<TagRecord> find_tag(const plan::Reference& reference) const;
    /// The digest that the reference has or that its tag had when last asked. Says nothing about the presence of the
    /// image.
    std::optional<Digest> digest_of(const plan::Reference& reference) const;
    /// The digest of the image manifest for this machine: of `digest` itself, or of its choice when it is an image
    /// index. Nothing when absent.
    std::optional<Digest> image_of(const Digest& digest) const;
    /// True when the image of `digest` (manifest or image index) is here. A layer may still have been removed by hand:
    /// open_layers tells.
    bool has_image(const Digest& digest) const { return image_of(digest).has_value(); }
    /// Throws Error when the image is absent.
    Fd open_index(const Digest& digest) const;
    /// The layer files in the index's order. Throws Error naming the one that is missing.
    std::vector<Fd> open_layers(const squash::Index& index) const;
    /// An empty Fd when the layer is absent.
    Fd open_layer(const Digest& diff_id) const;
    /// The name in layers/ of a layer that is here, or that it would get.
    std::string layer_file(const Digest& diff_id) const;
    /// manifest.json or config.json of an image that is here.
    std::string read_document(const Digest& digest, const std::string& file) const;

    /// A new empty file for a layer.
    NewFile new_file() const;
    /// Makes the file durable and visible as the layer `diff_id`, replacing one of the same name.
    void publish_layer(NewFile file, const Digest& diff_id) const;
    /// Publishes an image whose layers are here. An image that is there already only gets the new index.
    void publish_image(const Digest& digest, const ImageFiles& files) const;
    void replace_index(const Digest& digest, std::string_view index) const;
    /// Records that the image index `index` means the image `digest` on this machine's architecture.
    void put_image_index(const Digest& index, const Digest& digest) const;
    void put_tag(const plan::Reference& reference, const TagRecord& record) const;

    /// Lock that saves duplicate work; correctness never depends on it. try_lock gives an empty Lock while another
    /// process holds it; lock waits. On file systems without locks both succeed.
    Lock try_lock(const Digest& digest) const;
    Lock lock(const Digest& digest) const;
    /// "process 12 on host7" for who holds (or last held) the lock of `digest`; "another process" when it did not say.
    /// For messages only.
    std::string lock_owner(const Digest& digest) const;

    /// Keeps the image of a manifest digest from being removed; records the use, at most once a minute. Empty where the
    /// store cannot be written to: what runs must not depend on that.
    Lease lease(const Digest& digest) const;
    /// The same of the image that `digest` (manifest or image index) means.
    Lease lease_image(const Digest& digest) const;
    /// The other side of lease(): empty while somebody has one.
    Lock claim(const Digest& digest) const;
    /// Keeps the image of a manifest digest until unpin(), whether anything runs or not: named containers need it
    /// again. `holder` is the path of a file of this host: without it the pin counts for nothing. Silently without
    /// effect where the store cannot be written to.
    void pin(const Digest& digest, const std::string& holder) const;
    void unpin(const Digest& digest, const std::string& holder) const;
    /// The holders of the image's pins: "PATH", or "PATH on HOST" for those of other hosts, which cannot be looked for
    /// here.
    std::vector<std::string> pin_holders(const Digest& digest) const;
    /// Removes the pins whose holders have gone from this host. For collect().
    void sweep_pins() const;
    /// Held by a pull from its first look at what is here until its image is published: nothing is removed meanwhile.
    /// Waits for a removal.
    Lock hold_off_removals() const;
    /// Held while objects are removed. Empty while pulls go on and `wait` is false.
    Lock hold_off_pulls(bool wait) const;
    /// False where locks do not exist or may not be seen by other hosts (network file systems): removals then go by age
    /// as well.
    bool locks_are_certain() const;
    /// Says that a layer that was here already is going to be part of an image, for removals that go by age.
    void touch_layer(const Digest& diff_id) const;
    /// Removes what dead processes of this host left in tmp/. Returns the number of objects removed.
    size_t sweep() const;

    /// An object that is here ("layers/NAME"), for reading; empty when it is not. Whatever is read of layers, images
    /// and tags is found by this alone. Throws SysError.
    Fd find(const std::string& path, int flags) const;
    /// One of the folders of the layout, or a folder in it, for what lists and removes.
    Fd directory(const std::string& name) const;
    /// What the file `name` of lists/ means on this or another architecture; nothing when it cannot be understood.
    std::optional<Digest> find_image_index(const std::string& name) const;

  private:
    Store(std::string path, Fd root) : path_(std::move(path)), root_(std::move(root)) {}
    /// Of an image that is here; throws Error when it is not.
    Fd open_document(const Digest& digest, const std::string& file) const;
    /// As sys::open_beneath; its error has the whole path.
    Fd open_object(const std::string& path, int flags, mode_t mode = 0) const;
    void make_refs_directory(const plan::Reference& reference) const;
    void publish_text(std::string_view text, const std::string& folder, const std::string& name) const;
    void move_in(NewFile& file, const std::string& folder, const std::string& name) const;
    NewFile named_file() const;
    Fd take_lock(const std::string& path, int operation) const;
    Lock owned_lock(const Digest& digest, int operation) const;
    std::string shown(const std::string& object) const { return path_ + "/" + object; }

    std::string path_;
    Fd root_;
};

}  // namespace berth::store
