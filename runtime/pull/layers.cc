#include "runtime/pull/layers.hh"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/image/layer.hh"
#include "runtime/pull/seal.hh"

namespace berth::pull {

namespace {

class Fetch {
  public:
    Fetch(const store::Store& store, const std::vector<MissingLayer>& layers, std::atomic<bool>& stop, std::string what, Meter& meter)
        : store_(store), layers_(layers), stop_(stop), what_(std::move(what)), meter_(meter) {}

    /// Runs in a worker until no layer is left, or something failed.
    void work(const image::Source& origin, unsigned compressors) noexcept;
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void fetch(image::Source& source, size_t index, unsigned compressors);
    Fd wait_for_turn(size_t index);
    void fail(std::exception_ptr failure);

    const store::Store& store_;
    const std::vector<MissingLayer>& layers_;
    std::atomic<bool>& stop_;
    std::string what_;
    Meter& meter_;
    std::atomic<size_t> next_ = 0;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

void Fetch::fail(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    // Later ones are mostly the "stopped" of the other workers.
    if (!failure_) failure_ = std::move(failure);
    stop_ = true;
}

void Fetch::work(const image::Source& origin, unsigned compressors) noexcept {
    try {
        std::unique_ptr<image::Source> source = origin.sibling();
        for (size_t i = next_++; i < layers_.size() && !stop_; i = next_++) fetch(*source, i, compressors);
    } catch (...) {
        fail(std::current_exception());
    }
}

/// Another image that is being pulled may have the same layer; its pull may also die.
Fd Fetch::wait_for_turn(size_t index) {
    for (const std::string& diff_id = layers_[index].diff_id;;) {
        if (Fd turn = store_.try_lock(diff_id)) return turn;
        if (stop_) throw Error(cat(what_, ": stopped"));
        meter_.set_layer(index, LayerState::waiting, store_.lock_owner(diff_id));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

void Fetch::fetch(image::Source& source, size_t index, unsigned compressors) {
    const MissingLayer& layer = layers_[index];
    Fd turn = wait_for_turn(index);
    if (store_.open_layer(layer.diff_id)) return meter_.set_layer(index, LayerState::present);
    meter_.set_layer(index, LayerState::pulling);
    store::NewFile file = store_.new_file();
    image::ConvertOptions options;
    options.writer.workers = compressors;
    image::LayerConverter converter(file.fd(), cat(what_, ", layer ", layer.blob.digest), options);
    auto take = [&](const void* data, size_t size) {
        converter.write(data, size);
        meter_.advance_layer(index, size);
    };
    if (layer.blob.data) {
        take(layer.blob.data->data(), layer.blob.data->size());
    } else {
        source.stream(layer.blob, take);
    }
    meter_.set_layer(index, LayerState::converting);
    image::ConvertedLayer got = converter.finish();
    auto refuse = [&](const char* kind, const std::string& is, const std::string& wanted) {
        if (is != wanted) throw Error(cat(what_, ", layer ", layer.blob.digest, ": its ", kind, " is ", is, " instead of ", wanted, "; refused"));
    };
    refuse("digest", got.digest, layer.blob.digest);
    refuse("diff_id", got.diff_id, layer.diff_id);
    meter_.set_layer(index, LayerState::saving);
    seal_layer(file.fd(), cat(what_, ", layer ", layer.blob.digest));
    store_.publish_layer(std::move(file), layer.diff_id);
    meter_.set_layer(index, LayerState::done);
}

}  // namespace

void fetch_layers(const store::Store& store, const image::Source& source, const std::vector<MissingLayer>& layers, unsigned downloads,
                  std::atomic<bool>& stop, const std::string& what, Meter& meter) {
    if (layers.empty()) return;
    std::vector<LayerStatus> shown;
    for (const MissingLayer& layer : layers) shown.push_back({layer.blob.digest, layer.blob.size});
    meter.begin_layers(cat("pulling ", what), shown);
    Fetch fetch(store, layers, stop, what, meter);
    auto workers = static_cast<unsigned>(std::min<size_t>(std::max(downloads, 1U), layers.size()));
    unsigned compressors = std::max(1U, std::thread::hardware_concurrency() / workers);
    {
        // Joined at the end of the block.
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < workers; ++i) threads.emplace_back(&Fetch::work, &fetch, std::cref(source), compressors);
    }
    fetch.rethrow();
}

}  // namespace berth::pull
