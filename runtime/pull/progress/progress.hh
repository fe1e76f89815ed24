// How far a pull, an import or a verification has come: a plain value for those who show it, and the counters that feed
// it.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/telemetry/event.hh"

namespace berth::pull {

enum class Phase {
    opening,
    waiting,
    asking,
    exporting,
    reading,
    pulling,
    merging,
    removing,
    writing,
    saving,
    verifying
};

inline constexpr size_t phase_count = 11;

/// queued: its turn has not come. waiting: another process pulls it. converting: all bytes are here, the squashfs file
/// is not. saving: the file goes to the disk. present: somebody else has brought it meanwhile.
enum class LayerState { queued, waiting, pulling, converting, saving, done, present };

/// The words for programs: "pulling", "queued" and so on.
const char* name_of(Phase phase);
const char* name_of(LayerState state);

struct LayerStatus {
    std::string digest;
    uint64_t total = 0;
    uint64_t received = 0;
    LayerState state = LayerState::queued;
    std::string owner = {};  ///< of the lock, while waiting
    double rate = 0;         ///< bytes a second; filled in by Rates
};

/// All times are seconds.
struct Status {
    std::string image = {};  ///< as the user wrote it; empty when it is about a store
    Phase phase = Phase::opening;
    unsigned phase_number = 0;  ///< differs between two phases of one kind
    std::string title = {};     ///< what is being done, to which object
    double elapsed = 0;         ///< since the beginning
    double phase_elapsed = 0;
    uint64_t received = 0;  ///< or read, or written, in this phase; the sum of the layers that are pulled
    uint64_t total = 0;     ///< 0: not known
    double rate = 0;        ///< filled in by Rates, as is eta
    std::optional<double> eta = {};
    std::vector<LayerStatus> layers = {};  ///< in the phase pulling
    std::optional<double> retry_in = {};   ///< until the last request that failed is tried again
    std::optional<nodes::StepStatus> step = {};  ///< where the nodes of the step share what they pull
};

/// What is reported when it happens, not at the next display.
struct Event {
    enum class Kind { phase, layer, retry, note, warning };
    Kind kind = Kind::note;
    std::string text = {};  ///< the phase's title, the reason of a retry, or the line
    double seconds = 0;     ///< until the retry
    Phase phase = Phase::opening;
    uint64_t total = 0;
    LayerStatus layer = {};
};

/// Fed by the threads that work, read by the one that shows. Safe to use from all of them.
class Meter {
  public:
    explicit Meter(std::string image);

    /// `total` is in bytes, 0 when it is not known.
    void begin(Phase phase, const std::string& title, uint64_t total = 0);
    void advance(uint64_t bytes) { received_ += bytes; }
    /// Begins the phase pulling. `layers` have their digest and total. Not while threads count bytes of the layers of
    /// an earlier one.
    void begin_layers(const std::string& title, const std::vector<LayerStatus>& layers);
    void advance_layer(size_t layer, uint64_t bytes) { layers_[layer].received += bytes; }
    /// Bytes that came in vain, and will come again.
    void take_back(size_t layer, uint64_t bytes) { layers_[layer].received -= bytes; }
    void set_layer(size_t layer, LayerState state, const std::string& owner = {});
    void retry(std::chrono::milliseconds delay, const std::string& reason);
    /// How far the step's nodes are; nothing where this node pulls for itself.
    void set_step(const std::optional<nodes::StepStatus>& step);
    /// All of the layer has come from other nodes.
    void note_from_peers(size_t layer);
    /// So many bytes of layers have.
    void add_from_peers(uint64_t bytes);
    /// The layer has come in the form in which it runs; or it could not be used so, for the reason in the line.
    void note_published(size_t layer);
    void note_refused(const std::string& line);
    /// Somebody waited for these bytes of a layer, and reads them while the rest comes.
    void note_waited(uint64_t bytes) { waited_ += bytes; }
    uint64_t waited() const { return waited_; }
    /// Prints no line twice: the threads of a pull meet the same errors.
    void note(const std::string& line) { tell(Event::Kind::note, line); }
    void warn(const std::string& line) { tell(Event::Kind::warning, line); }

    const std::string& image() const { return image_; }
    /// By whose signature the image may run, and by which rule; of the thread that pulls alone.
    void set_signer(std::string signer, std::string rule) {
        signer_ = std::move(signer);
        rule_ = std::move(rule);
    }
    const std::string& signer() const { return signer_; }
    const std::string& rule() const { return rule_; }
    /// Bytes of layers that were fetched since the beginning, in all phases.
    uint64_t fetched() const;

    /// Those of them that other nodes have sent, as the registry has them.
    uint64_t from_peers() const;
    /// And those of layers that needed no converting; why the first one that did was refused, or nothing.
    uint64_t published() const;
    std::string refused() const;

    /// How long each kind of phase took, those that came to nothing left out; the present one until now.
    std::vector<plan::PhaseTime> phase_times() const;
    /// True when an image was made in the store.
    bool has_merged() const;

    Status status() const;
    std::vector<Event> take_events();
    /// Readable when there are events; take_events() makes it silent.
    int descriptor() const { return wake_.get(); }
    /// Makes the descriptor readable without an event.
    void wake() const;

  private:
    using Clock = std::chrono::steady_clock;
    struct Layer {
        LayerStatus known;
        std::atomic<uint64_t> received = 0;
        LayerStatus status() const;
    };

    void tell(Event::Kind kind, const std::string& line);
    void push(Event event);
    void start_phase(Phase phase, const std::string& title, uint64_t total);
    uint64_t fetched_now() const;

    const std::string image_;
    std::string signer_, rule_;
    const Clock::time_point start_ = Clock::now();
    Fd wake_;
    std::atomic<uint64_t> received_ = 0;
    std::atomic<uint64_t> waited_ = 0;
    mutable std::mutex mutex_;  ///< of what follows, but for the counters of the layers
    Phase phase_ = Phase::opening;
    unsigned phase_number_ = 0;
    std::string title_;
    Clock::time_point phase_start_ = start_;
    std::array<Clock::duration, phase_count> phase_times_ = {};
    uint64_t total_ = 0;
    uint64_t fetched_before_ = 0;
    std::deque<Layer> layers_;
    std::optional<Clock::time_point> retry_at_;
    std::optional<nodes::StepStatus> step_;
    uint64_t from_peers_ = 0;
    uint64_t published_ = 0;
    std::string refused_;
    std::set<std::string> told_;
    std::vector<Event> events_;
};

/// Fills in the rates, over the last seconds, and from them the time that is left. Pure but for its memory; to be given
/// every status that is shown.
class Rates {
  public:
    void update(Status& status);

  private:
    class Window {
      public:
        double add(double time, uint64_t bytes);

      private:
        struct Sample {
            double time;
            uint64_t bytes;
        };
        std::deque<Sample> samples_;
    };

    unsigned phase_number_ = 0;
    Window total_;
    std::vector<Window> layers_;
};

}  // namespace berth::pull
