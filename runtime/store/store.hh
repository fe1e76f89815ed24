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
#include "runtime/squash/read/data.hh"
#include "runtime/store/lease.hh"
#include "runtime/store/location.hh"
#include "runtime/store/reader.hh"

namespace berth::store {

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

/// Layout: layers/<hex of diff_id>.sqfs (older ones: .zstd.sqfs, whatever the codec), images/<hex of manifest
/// digest>/{manifest.json,config.json,index,origins,signatures,signatures.json} (the last two under a signature
/// policy), lists/<hex of image index digest>.<architecture>, refs/<registry>/<name>/:<tag>, leases/<hex of manifest
/// digest>, pins/<hex of manifest digest>.<anything>, unpacked/<hex of manifest digest or of another
/// key>{/rootfs/,.<uid>.<gid>.sqfs,.sif}, unproved/<hex of diff_id>, partial/<hex of manifest digest>/ (partial.hh),
/// prefetch/<id of an index>, hot/ (hot.hh), locks/, tmp/. Objects are opened below the store's directory without
/// following symlinks.
/// Beside it the stores that the site offers are read (shared.hh), where nothing is ever written: no lock, no lease, no
/// pin.
class Store {
  public:
    /// Opens the store at what Location::text() gave, or a bare path, making the directory (mode 0700, or 0755 for one
    /// that the site offers) when it is missing. Throws Error with the remedy when it is a symlink, belongs to someone
    /// else, or can be written by others. A shared store that cannot be used is passed over: refused() says why.
    static Store open(const std::string& location) { return open(parse_location(location)); }
    static Store open(const Location& location);
    /// For people.
    const std::string& path() const { return own_.path(); }
    /// What open() takes to open the same store in another process.
    std::string location() const { return location_.text(); }
    /// True for a store that all users read: its objects are published for everybody.
    bool is_offered() const { return location_.offered; }
    /// What is read of this store alone, and of each that is shared.
    const Reader& own() const { return own_; }
    const std::vector<Reader>& shared() const { return shared_; }
    /// A line for each shared store that is passed over.
    const std::vector<std::string>& refused() const { return refused_; }

    // Of all stores. What a shared store refuses, or cannot read, is as if it were not there.

    /// The record of a tag, the last one that a registry gave; nothing when there is none or it cannot be understood.
    std::optional<TagRecord> find_tag(const plan::Reference& reference) const;
    /// The digest that the reference has or that its tag had when last asked. Says nothing about the presence of the
    /// image.
    std::optional<Digest> digest_of(const plan::Reference& reference) const;
    /// The digest of the image manifest for this machine: of `digest` itself, or of its choice when it is an image
    /// index. Nothing when absent.
    std::optional<Digest> image_of(const Digest& digest) const;
    /// True when the image of `digest` (manifest or image index) is here. A layer may still have been removed by hand:
    /// open_image tells.
    bool has_image(const Digest& digest) const { return image_of(digest).has_value(); }
    /// An image that can be served: its index, the layer files in the index's order, and what keeps it.
    struct OpenedFiles;
    /// Of the shared stores first, whose pages in memory all users have in common. Throws Error when no store has it
    /// whole.
    OpenedFiles open_image(const Digest& digest) const;
    /// False where open_image() would throw. Leaves no lease.
    bool can_open(const Digest& digest) const;
    /// manifest.json or config.json of an image that is here.
    std::string read_document(const Digest& digest, const std::string& file) const;
    /// The same of another file in the image's folder; nothing when none is there.
    std::optional<std::string> find_document(const Digest& digest, const std::string& file,
                                             size_t limit = document_limit) const;
    /// A layer, of this store if it has it.
    struct Layer {
        Fd file;            ///< empty when no store has it
        std::string name;   ///< what an index of this store calls it
        bool shared = false;
    };
    Layer find_layer(const Digest& diff_id) const;
    /// An empty Fd when no store has the layer.
    Fd open_layer(const Digest& diff_id) const { return find_layer(diff_id).file; }

    // Of this store; layers of its images may be in shared ones.

    /// Throws Error when the image is absent.
    Fd open_index(const Digest& digest) const;
    /// The layer files in the order of an index of this store. Throws Error naming the one that is missing.
    std::vector<Fd> open_layers(const squash::Index& index) const { return open_layers(own_, index); }
    /// The name in layers/ of a layer that is here, or that it would get.
    std::string layer_file(const Digest& diff_id) const { return own_.layer_file(diff_id); }

    /// A new empty file for a layer.
    NewFile new_file() const;
    /// Makes the file durable and visible as the layer `diff_id`, replacing one of the same name.
    void publish_layer(NewFile file, const Digest& diff_id) const;
    /// Says of a layer, before it is published, that it has still to be proved to be the image's (pull/layers/
    /// unproved.hh); takes that back; tells it. A layer that was not what it should be keeps the mark when it has gone.
    void mark_unproved(const Digest& diff_id) const { publish_text("", "unproved", diff_id.hex()); }
    void clear_unproved(const Digest& diff_id) const;
    bool is_unproved(const Digest& diff_id) const;
    std::vector<Digest> unproved() const;
    /// Publishes an image whose layers are here. An image that is there already only gets the new index.
    void publish_image(const Digest& digest, const ImageFiles& files) const;
    void replace_index(const Digest& digest, std::string_view index) const;
    /// Adds a file to an image of this store, or replaces it.
    void put_document(const Digest& digest, const std::string& file, std::string_view text) const;
    /// What starts of the image with this index (Index::id()) have read, whatever kind of image it is: the list's file,
    /// nothing when there is none; and that, replaced. The oldest lists go when there are more than prefetch_lists.
    std::optional<std::string> find_prefetch_list(const std::string& index, size_t limit) const;
    void put_prefetch_list(const std::string& index, std::string_view text) const;
    static constexpr size_t prefetch_lists = 64;
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

    /// See Reader.
    Fd find(const std::string& path, int flags) const { return own_.find(path, flags); }
    Fd directory(const std::string& name) const { return own_.directory(name); }

  private:
    Store(const Location& location, Fd root) : location_(location), own_(location.path, std::move(root)) {}
    /// As sys::open_beneath; its error has the whole path.
    Fd open_object(const std::string& path, int flags, mode_t mode = 0) const;
    void open_shared_stores();
    template <typename Look>
    auto first(const Look& look) const;
    std::vector<Fd> open_layers(const Reader& store, const squash::Index& index) const;
    Fd open_shared_layer(const std::string& name) const;
    OpenedFiles open_own(const Digest& digest) const;
    std::optional<OpenedFiles> try_shared(const Reader& store, const Digest& image) const;
    /// With the mode that the store's folders have, whatever the umask.
    void make_folder(int above, const std::string& name, const std::string& what) const;
    void make_folders() const;
    void offer() const;
    void note_renaming(const plan::Reference& reference, const Digest& digest) const;
    void make_refs_directory(const plan::Reference& reference) const;
    void publish_text(std::string_view text, const std::string& folder, const std::string& name) const;
    void move_in(NewFile& file, const std::string& folder, const std::string& name) const;
    NewFile named_file() const;
    Fd take_lock(const std::string& path, int operation) const;
    Lock owned_lock(const Digest& digest, int operation) const;
    std::string shown(const std::string& object) const { return own_.shown(object); }

    Location location_;
    Reader own_;
    std::vector<Reader> shared_;
    std::vector<std::string> refused_;
};

struct Store::OpenedFiles {
    squash::Index index;
    std::vector<Fd> layers;
    Lease lease;  ///< empty for one of a shared store
    squash::ComingLayers coming = {};
};

}  // namespace berth::store
