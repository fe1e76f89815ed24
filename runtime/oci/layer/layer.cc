#include "runtime/oci/layer/layer.hh"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/tar.hh"
#include "runtime/oci/layer/unpack.hh"
#include "runtime/squash/index/tree.hh"

namespace berth::oci {

namespace {

using Block = std::string;

/// Packed bytes on their way to the worker: at most queue_limit blocks wait, so that a fast network cannot fill the
/// memory.
constexpr size_t block_size = 256 * 1024;
constexpr size_t queue_limit = 4;
/// Holes are written in pieces, between which a cancelled conversion stops.
constexpr uint64_t zeros_at_once = 16ULL << 20;

/// Ends the worker when nobody wants the result any more. Never leaves it.
struct Cancelled {};

class BlockQueue {
  public:
    /// Waits for room; drops the block when the worker is gone.
    void push(Block block) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return blocks_.size() < queue_limit || closed_; });
        if (!closed_) blocks_.push_back(std::move(block));
        changed_.notify_all();
    }
    /// Says that no block will follow.
    void end() {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    /// Frees whoever waits: the reader has failed, or the writer gives up.
    void close() {
        std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    /// The next block; false after the last. Throws Cancelled when closed.
    bool pop(Block& block) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !blocks_.empty() || ended_ || closed_; });
        if (closed_) throw Cancelled{};
        if (blocks_.empty()) return false;
        block = std::move(blocks_.front());
        blocks_.pop_front();
        changed_.notify_all();
        return true;
    }
    bool is_closed() const { return closed_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Block> blocks_;
    bool ended_ = false;
    std::atomic<bool> closed_ = false;
};

/// An Unpacker that a destructor need not wait for, even inside a hole of a terabyte.
class CancellableUnpacker : public Unpacker {
  public:
    CancellableUnpacker(squash::LayerWriter& writer, const LayerLimits& limits, const BlockQueue& queue)
        : Unpacker(writer, limits), queue_(queue) {}
    void zeros(uint64_t size) override {
        for (uint64_t part; size > 0; size -= part) {
            if (queue_.is_closed()) throw Cancelled{};
            part = std::min(size, zeros_at_once);
            Unpacker::zeros(part);
        }
    }

  private:
    const BlockQueue& queue_;
};

/// The same error with the layer in front, still a SysError when it was one.
[[noreturn]] void rethrow_for(const std::string& what) {
    std::string doing = cat("unpacking ", what, ": ");
    try {
        // cppcheck-suppress rethrowNoCurrentException ; called while one is handled
        throw;
    } catch (const SysError& error) {
        std::string line = error.what(), ending = ": " + reason(error.number());
        if (line.ends_with(ending)) line.resize(line.size() - ending.size());
        throw SysError(doing + line, error.number());
    } catch (const Error& error) {
        throw Error(doing + error.what(), error.exit_code());
    } catch (const std::bad_alloc&) {
        throw SysError("unpacking " + what, ENOMEM);
    } catch (const std::exception& error) {
        throw Error(doing + error.what());
    }
}

}  // namespace

struct LayerConverter::Impl {
    Impl(int squash_fd, std::string what_layer, const ConvertOptions& convert_options)
        : what(std::move(what_layer)),
          options(convert_options),
          writer(squash_fd, options.pool, options.on_final),
          unpacker(writer, options.limits, queue) {
        block.reserve(block_size);
        worker = std::thread([this] { work(); });
    }
    ~Impl() { stop(); }

    void stop() {
        queue.close();
        if (worker.joinable()) worker.join();
    }

    // The caller's thread

    void write(std::string_view data) {
        check();
        packed_hash.update(data);
        compressed_size += data.size();
        while (!data.empty()) {
            std::string_view part = data.substr(0, block_size - block.size());
            block += part;
            data.remove_prefix(part.size());
            if (block.size() == block_size) flush();
        }
        check();
    }

    void flush() {
        queue.push(std::move(block));
        block = {};
        block.reserve(block_size);
    }

    ConvertedLayer finish() {
        if (!worker.joinable()) throw std::logic_error("a layer conversion is finished once");
        if (!block.empty()) flush();
        queue.end();
        worker.join();
        check();
        return {.digest = packed_hash.finish(),
                .diff_id = unpacked_hash.finish(),
                .compressed_size = compressed_size,
                .unpacked_size = unpacked_size,
                .entries = entries,
                .skipped_devices = unpacker.skipped_devices(),
                .sums = writer.sums()};
    }

    /// Rethrows what the worker failed with.
    void check() {
        if (failed) std::rethrow_exception(failure);
    }

    // The worker

    void work() {
        try {
            convert();
            return;
        } catch (const Cancelled&) {
            return;
        } catch (...) {
            try {
                rethrow_for(what);
            } catch (...) {
                failure = std::current_exception();
            }
        }
        failed = true;
        queue.close();
    }

    void convert() {
        TarParser parser(unpacker);
        auto decompressor = make_decompressor([&](std::string_view data) { take_unpacked(parser, data); },
                                              best_gzip_engine(), options.windows);
        for (Block next; queue.pop(next);) decompressor->feed(next);
        decompressor->finish();
        parser.finish();
        unpacker.finish();
        entries = writer.entries();
        writer.mark_implied_directories(squash::implied_directory_marker);
        writer.finish();
    }

    void take_unpacked(TarParser& parser, std::string_view data) {
        if (queue.is_closed()) throw Cancelled{};
        unpacked_size += data.size();
        if (unpacked_size > options.limits.unpacked_bytes)
            throw Error(cat("the layer unpacks to more than ", human_bytes(options.limits.unpacked_bytes)));
        unpacked_hash.update(data);
        parser.feed(data);
    }

    const std::string what;
    const ConvertOptions options;
    squash::LayerWriter writer;
    BlockQueue queue;
    CancellableUnpacker unpacker;
    Sha256 packed_hash;     // the caller's
    Sha256 unpacked_hash;   // the worker's
    Block block;            // the caller's, not full yet
    uint64_t compressed_size = 0;  // the caller's
    uint64_t unpacked_size = 0;    // the worker's, and the next one too, until it is joined
    uint64_t entries = 0;
    std::exception_ptr failure;
    std::atomic<bool> failed = false;  // set after failure
    std::thread worker;
};

LayerConverter::LayerConverter(int squash_fd, const std::string& what, const ConvertOptions& options) {
    try {
        impl_ = std::make_unique<Impl>(squash_fd, what, options);
    } catch (...) {
        rethrow_for(what);
    }
}

LayerConverter::~LayerConverter() = default;

void LayerConverter::write(std::string_view data) {
    impl_->write(data);
}

ConvertedLayer LayerConverter::finish() {
    return impl_->finish();
}

}  // namespace berth::oci
