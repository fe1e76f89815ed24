#include "runtime/pull/layers.hh"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/image/layer.hh"
#include "runtime/pull/seal.hh"
#include "runtime/squash/compressor_pool.hh"

namespace berth::pull {

namespace {

using Clock = std::chrono::steady_clock;

class Fetch {
  public:
    Fetch(const store::Store& store, const std::vector<MissingLayer>& layers, squash::CompressorPool& pool, std::atomic<bool>& stop, std::string what)
        : store_(store), layers_(layers), pool_(pool), stop_(stop), what_(std::move(what)) {
        for (const MissingLayer& layer : layers) total_ += layer.blob.size;
    }

    /// Runs in a worker until no layer is left, or something failed.
    void work(image::Source& source) noexcept;
    /// Runs in the caller's thread until the workers are done.
    void watch(unsigned workers, const Progress& progress);
    /// Once they are: what the caller's thread is to tell.
    void warn(const Progress& progress) const {
        for (const std::string& line : warnings_) progress(line);
    }
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void fetch(image::Source& source, const MissingLayer& layer);
    store::NewFile fetched(image::Source& source, const MissingLayer& layer, image::ConvertedLayer& got);
    void refuse_other(const MissingLayer& layer, const char* kind, const std::string& is, const std::string& wanted) const;
    image::ConvertedLayer convert(image::Source& source, const MissingLayer& layer, int fd, uint64_t& taken);
    std::string name_of(const MissingLayer& layer) const { return cat(what_, ", layer ", layer.blob.digest); }
    Fd wait_for_turn(const MissingLayer& layer);
    void fail(std::exception_ptr failure);

    const store::Store& store_;
    const std::vector<MissingLayer>& layers_;
    squash::CompressorPool& pool_;
    std::atomic<bool>& stop_;
    std::string what_;
    uint64_t total_ = 0;
    std::atomic<size_t> next_ = 0;
    std::atomic<uint64_t> received_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned finished_ = 0;
    std::exception_ptr failure_;
    std::vector<std::string> warnings_;
    std::string waiting_;  ///< what a worker waits for, until it has been told
};

void Fetch::fail(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    // Later ones are mostly the "stopped" of the other workers.
    if (!failure_) failure_ = std::move(failure);
    stop_ = true;
}

void Fetch::work(image::Source& source) noexcept {
    try {
        for (size_t i = next_++; i < layers_.size() && !stop_; i = next_++) fetch(source, layers_[i]);
    } catch (...) {
        fail(std::current_exception());
    }
    std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_one();
}

/// Another image that is being pulled may have the same layer; its pull may also die.
Fd Fetch::wait_for_turn(const MissingLayer& layer) {
    for (bool told = false;; told = true) {
        if (Fd turn = store_.try_lock(layer.diff_id)) return turn;
        if (stop_) throw Error(cat(what_, ": stopped"));
        if (!told) {
            std::string owner = store_.lock_owner(layer.diff_id);
            std::lock_guard lock(mutex_);
            waiting_ = cat(what_, ": waiting for the layer ", layer.blob.digest, ", which ", owner, " is pulling");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

void Fetch::fetch(image::Source& source, const MissingLayer& layer) {
    Fd turn = wait_for_turn(layer);
    if (store_.open_layer(layer.diff_id)) {
        received_ += layer.blob.size;
        return;
    }
    image::ConvertedLayer got;
    store::NewFile file = fetched(source, layer, got);
    refuse_other(layer, "diff_id", got.diff_id, layer.diff_id);
    seal_layer(file.fd(), name_of(layer));
    store_.publish_layer(std::move(file), layer.diff_id);
}

/// The layer, converted from the bytes that its digest names. What a mirror sent wrong is asked of the next host, and in the end of the registry itself.
store::NewFile Fetch::fetched(image::Source& source, const MissingLayer& layer, image::ConvertedLayer& got) {
    for (;;) {
        store::NewFile file = store_.new_file();
        uint64_t taken = 0;
        try {
            got = convert(source, layer, file.fd(), taken);
            refuse_other(layer, "digest", got.digest, layer.blob.digest);
            return file;
        } catch (const SysError&) {
            throw;  // of this machine's disk or memory
        } catch (const image::Unreachable&) {
            throw;  // of the last host
        } catch (const Error& problem) {
            std::string mirrors = stop_ ? "" : source.pass_over_senders();
            if (mirrors.empty()) throw;
            received_ -= taken;
            std::lock_guard lock(mutex_);
            warnings_.push_back(cat("warning: mirror ", mirrors, " passed over: ", problem.what()));
        }
    }
}

image::ConvertedLayer Fetch::convert(image::Source& source, const MissingLayer& layer, int fd, uint64_t& taken) {
    image::ConvertOptions options;
    options.pool = &pool_;
    image::LayerConverter converter(fd, name_of(layer), options);
    auto take = [&](const void* data, size_t size) {
        converter.write(data, size);
        received_ += size;
        taken += size;
    };
    if (layer.blob.data) {
        take(layer.blob.data->data(), layer.blob.data->size());
    } else {
        source.stream(layer.blob, take);
    }
    return converter.finish();
}

void Fetch::refuse_other(const MissingLayer& layer, const char* kind, const std::string& is, const std::string& wanted) const {
    if (is != wanted) throw Error(cat(name_of(layer), ": its ", kind, " is ", is, " instead of ", wanted, "; refused"));
}

void Fetch::watch(unsigned workers, const Progress& progress) {
    auto start = Clock::now();
    std::unique_lock lock(mutex_);
    // Soon once, so that nobody wonders; then as seldom as suits a log.
    for (auto period = std::chrono::seconds(1); !changed_.wait_for(lock, period, [&] { return finished_ == workers; }); period = std::chrono::seconds(5)) {
        uint64_t received = received_;
        auto seconds = std::chrono::duration<double>(Clock::now() - start).count();
        std::string line = cat("pulling ", what_, ": ", human_bytes(received), " of ", human_bytes(total_), ", ",
                               human_bytes(static_cast<uint64_t>(static_cast<double>(received) / seconds)), "/s");
        if (!waiting_.empty()) line = std::exchange(waiting_, {});
        lock.unlock();
        progress(line);
        lock.lock();
    }
}

}  // namespace

void fetch_layers(const store::Store& store, image::Source& source, const std::vector<MissingLayer>& layers, const PullLimits& limits,
                  std::atomic<bool>& stop, const std::string& what, const Progress& progress) {
    if (layers.empty()) return;
    Capacity capacity = capacity_for(limits, usable_cpus());
    auto workers = static_cast<unsigned>(std::min<size_t>(capacity.layers, layers.size()));
    squash::CompressorPool pool(limits.compression, capacity.pool);
    Fetch fetch(store, layers, pool, stop, what);
    // The first goes on with the connection that brought the manifest.
    std::vector<std::unique_ptr<image::Source>> siblings;
    for (unsigned i = 1; i < workers; ++i) siblings.push_back(source.sibling());
    {
        // Joined at the end of the block, whatever progress throws; `stop` makes that soon.
        std::vector<std::jthread> threads;
        threads.emplace_back(&Fetch::work, &fetch, std::ref(source));
        for (const auto& sibling : siblings) threads.emplace_back(&Fetch::work, &fetch, std::ref(*sibling));
        try {
            fetch.watch(workers, progress);
        } catch (...) {
            stop = true;
            throw;
        }
    }
    fetch.warn(progress);
    fetch.rethrow();
}

}  // namespace berth::pull
