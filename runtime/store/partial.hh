// Images that have been started before their layers were here: partial/<hex of manifest digest>/ has their index, their
// layer files as far as they have come, and which chunks have.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/chunk_map.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/store/scratch.hh"
#include "runtime/store/store.hh"

namespace berth::store {

/// A layer file of such an image.
struct PartialLayer {
    Digest diff_id;
    Fd file;             ///< of the layer's size
    bool is_coming = false;  ///< false: it is a layer of a store
    uint64_t size = 0;
    uint32_t first = 0;  ///< the number of its first chunk
    uint32_t chunks() const { return static_cast<uint32_t>(ChunkMap::chunks_of(size)); }
};

/// Bytes of the layer that are here.
uint64_t here_bytes(const PartialLayer& layer, const ChunkMap& map);

/// One that is there, opened.
struct Partial {
    squash::Index index;
    std::vector<PartialLayer> layers;  ///< each once, in the order of the index
    std::shared_ptr<ChunkMap> map;
};

/// The layers of an index, each once, in its order. Throws Error naming `what` when one has no name of a layer.
std::vector<Digest> layers_of(const squash::Index& index, const std::string& what);

/// What a server of the image needs; nothing when find_partial() finds nothing.
std::optional<Store::OpenedFiles> open_partial(const Store& store, const Digest& manifest);

/// What a file in the image's folder has; nothing when it is not there.
std::optional<std::string> read_partial(const Store& store, const Digest& manifest, const std::string& file,
                                        size_t limit);
enum class Access { read, write };
/// Nothing when the image is not there, or what is there is of before the machine's last start. Layers that have still
/// to come are opened for `access`.
std::optional<Partial> find_partial(const Store& store, const Digest& manifest, Access access);

/// The folder of an image whose layers are to come, while it is made: it appears whole, by rename.
class NewPartial {
  public:
    NewPartial(const Store& store, const Digest& manifest);
    int folder() const { return tmp_.get(); }
    /// An empty file of this name. Throws SysError.
    Fd add(const std::string& file) const;
    /// Makes room for a layer that the store lacks. Throws SysError.
    void add_layer(const Digest& diff_id, uint64_t size) const;
    /// With `chunks` of which those in `here` need not come. What an earlier start of the machine has left goes.
    void publish(uint32_t chunks, const std::vector<ChunkMap::Chunks>& here);

  private:
    const Store& store_;
    Digest manifest_;
    Fd tmp_;
    Scratch scratch_;
};

/// A layer whose chunks are all here becomes one of the store, which reads of it do not see. False, with nothing done,
/// when the folder has been made anew meanwhile: what lies there is not what has come. Throws SysError.
bool publish_partial_layer(const Store& store, const Digest& manifest, const PartialLayer& layer);
/// Nobody needs the folder: the image is complete. Who has files of it open keeps them.
void remove_partial(const Store& store, const Digest& manifest);
/// The images that are there.
std::vector<Digest> partials(const Store& store);

}  // namespace berth::store
