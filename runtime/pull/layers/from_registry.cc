#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/layer.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/layers/layer_source.hh"
#include "runtime/pull/layers/source_pool.hh"

namespace berth::pull {

namespace {

class FromRegistry : public LayerSource {
  public:
    FromRegistry(LayerFetch& fetch, oci::Source& source, size_t connections, squash::CompressorPool& pool,
                 uint64_t memory)
        : fetch_(fetch), connections_(source, connections), pool_(pool), windows_(memory) {}

    bool bring(size_t index) override;

  private:
    struct Converted {
        store::NewFile file;
        oci::ConvertedLayer layer;
        std::unique_ptr<nodes::ChunkPump> pump;  ///< for the other nodes; null where they do not ask
    };
    Converted converted(size_t index);
    oci::ConvertedLayer convert(oci::Source& source, size_t index, int fd, nodes::ChunkPump* pump, uint64_t& taken);
    void refuse_other(size_t index, const char* kind, const Digest& is, const Digest& wanted) const {
        if (is != wanted)
            throw Error(cat(fetch_.name(index), ": its ", kind, " is ", is, " instead of ", wanted, "; refused"));
    }

    LayerFetch& fetch_;
    SourcePool connections_;
    squash::CompressorPool& pool_;
    oci::LargeWindows windows_;
};

bool FromRegistry::bring(size_t index) {
    const MissingLayer& layer = fetch_.layers[index];
    auto [file, got, pump] = converted(index);
    refuse_other(index, "diff_id", got.diff_id, layer.diff_id);
    fetch_.set_state(index, LayerState::saving);
    seal_layer(file.fd(), got.sums, fetch_.name(index));
    fetch_.finish(index, pump.get());
    fetch_.keep(index, std::move(file), "", "is converted, and published in the store");
    return true;
}

/// The layer, converted from the bytes that its digest names. What a mirror sent wrong is asked of the next host, and
/// in the end of the registry itself. The connection is given back before the result is hashed and synced, so that the
/// next layer goes on meanwhile.
FromRegistry::Converted FromRegistry::converted(size_t index) {
    auto source = connections_.take();
    for (;;) {
        store::NewFile file = fetch_.store.new_file();
        uint64_t taken = 0;
        try {
            auto pump = fetch_.pump(index, file.fd());
            oci::ConvertedLayer got = convert(*source, index, file.fd(), pump.get(), taken);
            refuse_other(index, "digest", got.digest, fetch_.layers[index].blob.digest);
            return {std::move(file), std::move(got), std::move(pump)};
        } catch (const SysError&) {
            throw;  // of this machine's disk or memory
        } catch (const oci::Unreachable&) {
            throw;  // of the last host
        } catch (const Error& problem) {
            std::string mirrors = fetch_.stop ? "" : source->pass_over_senders();
            if (mirrors.empty()) throw;
            fetch_.meter.take_back(index, taken);
            fetch_.meter.warn(cat("mirror ", mirrors, " passed over: ", problem.what()));
        }
    }
}

oci::ConvertedLayer FromRegistry::convert(oci::Source& source, size_t index, int fd, nodes::ChunkPump* pump,
                                          uint64_t& taken) {
    const MissingLayer& layer = fetch_.layers[index];
    fetch_.set_state(index, LayerState::pulling);
    oci::ConvertOptions options;
    options.pool = &pool_;
    options.windows = &windows_;
    if (pump != nullptr) options.on_final = [pump](uint64_t bytes) { pump->note(bytes); };
    oci::LayerConverter converter(fd, fetch_.name(index), options);
    auto take = [&](std::string_view data) {
        converter.write(data);
        fetch_.meter.advance_layer(index, data.size());
        fetch_.nodes.count_registry(data.size());
        taken += data.size();
    };
    if (layer.blob.data)
        take(*layer.blob.data);
    else
        source.stream(layer.blob, take);
    fetch_.set_state(index, LayerState::converting);
    return converter.finish();
}

}  // namespace

std::unique_ptr<LayerSource> from_registry(LayerFetch& fetch, oci::Source& source, size_t connections,
                                           squash::CompressorPool& pool, uint64_t memory) {
    return std::make_unique<FromRegistry>(fetch, source, connections, pool, memory);
}

}  // namespace berth::pull
