#include <algorithm>

#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/layers/layer_source.hh"
#include "runtime/pull/layers/source_pool.hh"

namespace berth::pull {

namespace {

class FromArtifact : public LayerSource {
  public:
    FromArtifact(LayerFetch& fetch, const Published& published, size_t connections)
        : fetch_(fetch), published_(published), connections_(*published.source, connections) {}

    bool bring(size_t index) override;

  private:
    bool fetch_file(size_t index, const oci::PublishedLayer& ready, int fd, const std::function<void(uint64_t)>& take);

    LayerFetch& fetch_;
    const Published& published_;
    SourcePool connections_;
};

/// False when the layer has still to be proved. Other nodes get only what is proved: they could not take it back.
bool FromArtifact::fetch_file(size_t index, const oci::PublishedLayer& ready, int fd,
                              const std::function<void(uint64_t)>& take) {
    std::string what = fetch_.name(index);
    bool later = published_.is_trusted && fetch_.role(index) == LayerFetch::Role::alone &&
                 !fetch_.store.is_unproved(ready.diff_id);
    auto source = connections_.take();
    fetch_published(*source, ready, fd, what, take);
    later ? check_published(fd, what) : prove_published(*source, ready, fd, what, [&] { take(0); });
    return !later;
}

/// Whatever is wrong with what is published, the layer can be converted.
bool FromArtifact::bring(size_t index) {
    const MissingLayer& layer = fetch_.layers[index];
    const oci::PublishedLayer* ready = published_.artifact.find(layer.diff_id);
    if (ready == nullptr) return false;
    fetch_.set_state(index, LayerState::pulling);
    store::NewFile file = fetch_.store.new_file();
    std::atomic<uint64_t> taken = 0;
    auto count = fetch_.counter(index, taken);
    bool is_proved = false;
    try {
        is_proved = fetch_file(index, *ready, file.fd(), [&](uint64_t bytes) {
            fetch_.check_stop();
            count(bytes);
            fetch_.nodes.count_registry(bytes);
        });
    } catch (const Error& problem) {
        if (fetch_.stop || is_of_this_machine(problem)) throw;
        fetch_.meter.take_back(index, std::min(taken.load(), layer.blob.size));
        std::string line = cat(fetch_.name(index),
                               " is converted here, since what is published of it cannot be used: ", problem.what());
        debug::log("pull", line);
        fetch_.meter.warn(line);
        fetch_.meter.note_refused(line);
        return false;
    }
    fetch_.set_state(index, LayerState::saving);
    fetch_.finish(index, fetch_.pump(index, file.fd()).get());
    fetch_.meter.note_published(index);
    fetch_.keep(index, std::move(file), origin_of(published_.place),
                cat("came published, ", is_proved ? "and is proved" : "and is still to be proved"), is_proved);
    return true;
}

}  // namespace

std::unique_ptr<LayerSource> from_artifact(LayerFetch& fetch, const Published& published, size_t connections) {
    return std::make_unique<FromArtifact>(fetch, published, connections);
}

}  // namespace berth::pull
