// Brings the chunks of an image's layer files while the image is read: what is waited for, then what starts read
// (the profile), then what lies behind what was waited for last, then the rest. With other nodes of the step, these are
// the chunks that this one is to ask for; the others come from them.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/oci/artifact.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/lazy/early_parts.hh"
#include "runtime/pull/nodes/peer/lazy_exchange.hh"
#include "runtime/store/partial.hh"

namespace berth::pull {

/// Chunks of one layer file, one behind the other: one request.
struct ChunkRun {
    size_t layer = 0;
    ChunkMap::Chunks chunks;
    bool urgent = false;  ///< somebody waits for the first one: it has the link to itself
    std::optional<unsigned> from = {};  ///< the node that has them; nothing: the registry
};

/// Decides what is fetched next. Pure. One thread at a time.
class ChunkOrder {
  public:
    /// `ends`: for each layer, the number behind its last chunk.
    /// `source`: which node a chunk comes from of its own accord; nothing for those to ask the registry for.
    using Source = std::function<std::optional<unsigned>(uint32_t chunk)>;
    ChunkOrder(std::vector<uint32_t> ends, std::vector<uint32_t> profile, Source source = {});

    /// False when it was here before.
    bool set_here(uint32_t chunk);
    /// `behind`: what lies behind what was waited for last.
    enum class UpTo { wanted, profile, behind, rest };
    /// What to fetch now; nothing when there is nothing to do. The order: `wanted`, the profile, what lies behind the
    /// chunk that was waited for last, the rest. Nothing beyond `up_to`. With other nodes:
    /// - The rest waits until all of the profile is here. Until then the registry's link is for the profile.
    /// - Owners send the profile of their own accord. A wanted chunk of it is not asked for where another node owns it,
    ///   and is not urgent where this one does.
    /// - A wanted chunk that a request under way brings behind several others is fetched once more, by itself.
    std::optional<ChunkRun> next(const std::vector<uint32_t>& wanted, UpTo up_to);
    bool is_complete() const { return left_ == 0; }
    bool lacks_profile() const { return profile_left_ > 0; }
    /// From all threads.
    bool is_in_profile(uint32_t chunk) const { return in_profile_[chunk]; }

    static constexpr uint32_t urgent_chunks = 4;  ///< in a request for what is waited for
    static constexpr uint32_t chunks_a_run = 16;   ///< of the rest without other nodes; else ChunkOwners has a limit
    static constexpr uint32_t far_chunks = 2;      ///< that come before one that is waited for, in a request for more
    /// Of a layer behind what was waited for, before the rest: a program's files lie close to one another.
    static constexpr uint32_t chunks_behind = 64;

  private:
    std::optional<unsigned> source(uint32_t chunk) const { return source_ ? source_(chunk) : std::nullopt; }
    bool is_free(uint32_t chunk) const { return taken_[chunk] == Taken::no && !source(chunk); }
    bool is_far(uint32_t chunk) const;
    std::optional<ChunkRun> next_of_profile();
    std::optional<ChunkRun> next_behind();
    std::optional<ChunkRun> next_of_rest();
    /// Here, or being fetched, by somebody who goes on until it is here: with others before it, or at once.
    enum class Taken : uint8_t { no, in_turn, at_once };
    ChunkRun run_at(uint32_t first, uint32_t limit, bool of_profile, Taken as = Taken::in_turn);

    std::vector<uint32_t> ends_;
    std::vector<uint32_t> profile_;
    std::vector<bool> in_profile_;
    Source source_;
    std::vector<Taken> taken_;
    std::vector<uint32_t> run_starts_;  ///< of those that are taken in turn
    std::vector<bool> here_;
    size_t next_of_profile_ = 0;
    ChunkMap::Chunks behind_;  ///< see chunks_behind
    uint32_t next_of_rest_ = 0;
    uint32_t left_;
    uint32_t profile_left_ = 0;  ///< of the profile, that are not here
};

/// Whether the start of a step has all that it reads, on all of its nodes as far as one of them can tell: it has had
/// nothing to wait for, for a quarter of the time until then, since others may be slower. What they wait for would
/// share its way with the rest. Pure. One thread at a time.
class StartWatch {
  public:
    using Time = std::chrono::steady_clock::time_point;
    explicit StartWatch(Time began) : began_(began), went_on_(began) {}

    /// `wishes`: how often somebody has waited so far.
    bool is_over(Time now, uint32_t wishes, bool lacks_profile);

    static constexpr auto shortest = std::chrono::milliseconds(500), longest = std::chrono::milliseconds(5000);

  private:
    Time began_;
    Time went_on_;  ///< when it waited for something, the last time
    uint32_t wishes_ = 0;
};

struct ChunkFetchSettings {
    std::string what;                       ///< the image, in messages
    std::chrono::seconds patience{600};     ///< with a source that sends nothing
    uint64_t rate = 0;                      ///< bytes a second of what nobody waits for; 0: no limit
    const std::atomic<bool>* stop = nullptr;
    std::function<void(size_t layer, uint64_t bytes)> taken;
    std::function<void(uint64_t bytes)> waited;  ///< told of those bytes that somebody waited for, too
    std::function<void(uint64_t bytes)> from_nodes = {};  ///< and of those that other nodes sent
    nodes::LazyExchange* exchange = nullptr;             ///< with the other nodes of the step
};

/// Returns when all chunks are here. Throws Error when one cannot be had; those that wait have been told.
void fetch_chunks(const store::Partial& partial, const oci::Artifact& artifact, const ChunkSums& sums,
                  const std::vector<uint32_t>& profile, oci::Source& source, const ChunkFetchSettings& settings);

}  // namespace berth::pull
