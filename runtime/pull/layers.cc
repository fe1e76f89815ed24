#include "runtime/pull/layers.hh"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
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

/// The connections. A worker has one while it converts a layer, not while it hashes and syncs the result, so that the next layer goes on meanwhile.
class Sources {
  public:
    Sources(image::Source& first, size_t count) : free_{&first} {
        while (free_.size() < count) free_.push_back(siblings_.emplace_back(first.sibling()).get());
    }

    struct GiveBack {
        Sources* sources;
        void operator()(image::Source* source) const { sources->give(source); }
    };
    std::unique_ptr<image::Source, GiveBack> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !free_.empty(); });
        // The first is the one that is connected already, and what came back last is warm.
        image::Source* source = free_.front();
        free_.pop_front();
        return {source, GiveBack{this}};
    }

  private:
    void give(image::Source* source) {
        std::lock_guard lock(mutex_);
        free_.push_front(source);
        changed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<image::Source>> siblings_;
    std::deque<image::Source*> free_;
};

class Fetch {
  public:
    Fetch(const store::Store& store, Sources& sources, const std::vector<MissingLayer>& layers, squash::CompressorPool& pool, std::atomic<bool>& stop,
          std::string what)
        : store_(store), sources_(sources), layers_(layers), pool_(pool), stop_(stop), what_(std::move(what)) {
        for (const MissingLayer& layer : layers) total_ += layer.blob.size;
    }

    /// Runs in a worker until no layer is left, or something failed.
    void work() noexcept;
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
    void fetch(const MissingLayer& layer);
    store::NewFile fetched(const MissingLayer& layer, image::ConvertedLayer& got);
    void refuse_other(const MissingLayer& layer, const char* kind, const std::string& is, const std::string& wanted) const;
    image::ConvertedLayer convert(image::Source& source, const MissingLayer& layer, int fd, uint64_t& taken);
    std::string name_of(const MissingLayer& layer) const { return cat(what_, ", layer ", layer.blob.digest); }
    Fd wait_for_turn(const MissingLayer& layer);
    void fail(std::exception_ptr failure);

    const store::Store& store_;
    Sources& sources_;
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

void Fetch::work() noexcept {
    try {
        for (size_t i = next_++; i < layers_.size() && !stop_; i = next_++) fetch(layers_[i]);
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

void Fetch::fetch(const MissingLayer& layer) {
    Fd turn = wait_for_turn(layer);
    if (store_.open_layer(layer.diff_id)) {
        received_ += layer.blob.size;
        return;
    }
    image::ConvertedLayer got;
    store::NewFile file = fetched(layer, got);
    refuse_other(layer, "diff_id", got.diff_id, layer.diff_id);
    seal_layer(file.fd(), name_of(layer));
    store_.publish_layer(std::move(file), layer.diff_id);
}

/// The layer, converted from the bytes that its digest names. What a mirror sent wrong is asked of the next host, and in the end of the registry itself.
store::NewFile Fetch::fetched(const MissingLayer& layer, image::ConvertedLayer& got) {
    auto source = sources_.take();
    for (;;) {
        store::NewFile file = store_.new_file();
        uint64_t taken = 0;
        try {
            got = convert(*source, layer, file.fd(), taken);
            refuse_other(layer, "digest", got.digest, layer.blob.digest);
            return file;
        } catch (const SysError&) {
            throw;  // of this machine's disk or memory
        } catch (const image::Unreachable&) {
            throw;  // of the last host
        } catch (const Error& problem) {
            std::string mirrors = stop_ ? "" : source->pass_over_senders();
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
    // Twice as many workers as connections: the others are at the end of a layer, or wait.
    auto workers = static_cast<unsigned>(std::min<size_t>(2 * capacity.layers, layers.size()));
    Sources sources(source, std::min<size_t>(capacity.layers, layers.size()));
    squash::CompressorPool pool(limits.compression, capacity.pool);
    Fetch fetch(store, sources, layers, pool, stop, what);
    {
        // Joined at the end of the block, whatever progress throws; `stop` makes that soon.
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < workers; ++i) threads.emplace_back(&Fetch::work, &fetch);
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
