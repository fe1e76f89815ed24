// A layer file while it comes into being: which of its chunks are here, so that others can have them before it is
// whole.
#pragma once
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/base/fd.hh"
#include "runtime/pull/nodes/chunks/chunk_stream.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

/// Bytes of a chunk; the last one of a file may be shorter. A node sends on what it has whole: the larger a chunk, the
/// later the last nodes begin.
inline constexpr uint32_t chunk_size = 64 << 10;  // 0143 has what others cost

/// The chunk that stands at `place` of a stripe, in a file with `chunks` of them; nothing behind the last. Odd chunks
/// are one stripe, even ones the other; chunk 0 comes last, since the superblock in it is written last.
std::optional<uint32_t> chunk_at(unsigned stripe, uint32_t place, uint32_t chunks);
/// The same while the file's size is not known: chunk 0 has no place then.
uint32_t chunk_at(unsigned stripe, uint32_t place);

inline uint32_t chunks_in(uint64_t size) { return static_cast<uint32_t>((size + chunk_size - 1) / chunk_size); }

/// Safe to use from all threads. Chunks of a stripe come in its order.
class GrowingLayer : public Offer {
  public:
    explicit GrowingLayer(Digest diff_id) : diff_id_(std::move(diff_id)) {}

    const Digest& diff_id() const { return diff_id_; }
    std::string name() const override { return std::string(diff_id_.hex()); }
    /// See LayerPath: what is here of the stripe, and what comes, until all of it has or the layer will not.
    std::unique_ptr<ChunkStream> answer(std::string_view path, std::string_view here) const override;

    /// From now on the chunks lie in `file`, a descriptor of this object's own. Forgets those of another file.
    void lie_in(Fd file);
    /// The chunk is in the file.
    void add(uint32_t index, uint32_t size, const ChunkSum& sum);
    /// By the owner, who has all chunks but 0 added: adds that one too. By a receiver, when the owner has told it.
    void complete(const LayerSum& sum);
    /// It will not come any more: who waits for it is told.
    void give_up();
    bool is_given_up() const;

    std::optional<LayerSum> sum() const;
    /// So many chunks of the stripe are here.
    uint32_t count(unsigned stripe) const;
    /// All chunks of the stripe are here, and it is known how many there are.
    bool has_stripe(unsigned stripe) const;
    /// Waits for the sum; false when the layer was given up, or after `patience`.
    bool wait_for_sum(std::chrono::milliseconds patience) const;
    /// The SHA-256 over the sums of all chunks, which are here.
    Digest sum_of_sums() const;

    /// The head of what stands at `place` of the stripe; `waiting` after `patience`.
    ChunkHead wait_for(unsigned stripe, uint32_t place, std::chrono::milliseconds patience) const;
    /// Bytes of a chunk that is here. Throws SysError.
    size_t read(const ChunkHead& head, uint32_t offset, char* out, size_t size) const;

  private:
    std::optional<ChunkHead> head_at(unsigned stripe, uint32_t place) const;

    const Digest diff_id_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::shared_ptr<Fd> file_;
    std::vector<std::optional<ChunkHead>> heads_;  ///< by index
    std::array<uint32_t, stripe_count> counts_ = {};
    std::optional<LayerSum> sum_;
    bool given_up_ = false;
};

/// Another descriptor of an open file. Throws SysError naming `what`.
Fd descriptor_of(int file, const std::string& what);

/// Makes the chunks of a file that somebody else writes from its start to its end. Keeps a thread.
class ChunkPump {
  public:
    /// `file` is a descriptor of the pump's own. `what` names it in errors.
    ChunkPump(GrowingLayer& layer, Fd file, std::string what);
    /// Ends the thread, and gives the layer up unless finish() has ended well.
    ~ChunkPump();
    ChunkPump(const ChunkPump&) = delete;
    ChunkPump& operator=(const ChunkPump&) = delete;

    /// So many bytes are final, but for chunk 0. Any thread.
    void note(uint64_t final_bytes);
    /// All is final: makes the rest and chunk 0, and the layer is complete. Throws what the thread met.
    void finish();

  private:
    void work();
    void make(uint32_t index, uint64_t end);

    GrowingLayer& layer_;
    Fd file_;
    std::string what_;
    std::vector<char> buffer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t final_ = 0;
    bool ended_ = false, is_done_ = false;
    std::exception_ptr failure_;
    uint32_t next_ = 1;
    std::thread thread_;
};

}  // namespace berth::pull::nodes
