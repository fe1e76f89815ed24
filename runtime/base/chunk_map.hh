// Which chunks of an image's layer files have come: a small file that the process that brings them and those that read
// the files meanwhile have mapped.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/digest.hh"

namespace berth {

/// Safe to use from many threads and processes. A chunk is marked as here after its bytes are written, so that whoever
/// sees the mark may read them. No mark outlives a reboot: bytes that were in the page cache alone are lost then.
class ChunkMap {
  public:
    static constexpr uint64_t chunk_size = 1 << 20;  ///< bytes; the last chunk of a file is shorter
    /// Chunks of a file of so many bytes.
    static constexpr uint64_t chunks_of(uint64_t bytes) { return (bytes + chunk_size - 1) / chunk_size; }
    /// Chunks of an image at most: 4 TiB.
    static constexpr uint64_t chunk_limit = 1 << 22;

    /// Fills the empty file `fd`, of which the caller keeps the descriptor: `count` chunks of what `of` names, none of
    /// which is here. Throws SysError.
    static std::shared_ptr<ChunkMap> create(int fd, uint32_t count, const Digest& of);
    /// What create() has put into a file; null when it is not of so many chunks of `of`, or of an earlier start of the
    /// machine.
    static std::shared_ptr<ChunkMap> open(int fd, uint32_t count, const Digest& of);
    ~ChunkMap();
    ChunkMap(const ChunkMap&) = delete;
    ChunkMap& operator=(const ChunkMap&) = delete;

    struct Chunks {
        uint32_t first = 0, count = 0;
    };
    uint32_t count() const { return count_; }
    bool is_here(uint32_t chunk) const { return state(chunk) == State::here; }
    bool are_here(Chunks chunks) const;
    uint32_t here() const;  ///< how many

    // For those that read.

    /// Somebody wants these soon.
    void ask(Chunks chunks);

    /// Asks for the chunks and waits until they are here: 0, or -errno. -EIO: one of them cannot be had, nobody brings
    /// them any more, or none has come for as long as set_patience() says. -EINTR: `interrupted`, which is asked some
    /// times a second, has said so.
    int wait(Chunks chunks, const std::function<bool()>& interrupted = {});
    /// A pipe of the one that brings them, which the threads that wait have open as well: its end means that nobody
    /// brings anything any more.
    void set_lifeline(int descriptor) { lifeline_ = descriptor; }
    int lifeline() const { return lifeline_; }
    void set_patience(std::chrono::seconds patience) { patience_ = patience; }

    /// Grows with each chunk that is here, or failed.
    uint32_t changes() const;
    /// Returns when changes() is no longer `seen`, or after `limit`.
    void wait_for_change(uint32_t seen, std::chrono::milliseconds limit);

    // For the one that brings them.

    /// The chunks that somebody waits for, or has waited for until he was interrupted, in the order of their numbers.
    std::vector<uint32_t> wanted() const;
    bool is_wanted(uint32_t chunk) const { return state(chunk) == State::wanted; }
    void set_here(uint32_t chunk) { settle(chunk, State::here); }
    /// Those that wait for the chunk have an error; whoever asks for it later waits anew.
    void set_failed(uint32_t chunk) { settle(chunk, State::failed); }
    /// Grows with each chunk that is asked for.
    uint32_t wishes() const;
    /// Returns when wishes() is no longer `seen`, after `limit`, or now and then.
    void wait_for_wish(uint32_t seen, std::chrono::milliseconds limit);

  private:
    enum class State : uint8_t { missing, wanted, here, failed };
    struct Header;
    ChunkMap(void* memory, size_t size, uint32_t count);
    static std::shared_ptr<ChunkMap> map(int fd, uint32_t count);
    std::atomic_ref<uint8_t> at(uint32_t chunk) const { return std::atomic_ref(states_[chunk]); }
    State state(uint32_t chunk) const { return static_cast<State>(at(chunk).load(std::memory_order_acquire)); }
    bool is_abandoned() const;
    void ask_for(uint32_t chunk);
    int wait_for(uint32_t chunk, const std::function<bool()>& interrupted);
    void settle(uint32_t chunk, State state);

    Header* header_;
    uint8_t* states_;
    size_t size_;
    uint32_t count_;
    int lifeline_ = -1;
    std::chrono::seconds patience_{600};
};

}  // namespace berth
