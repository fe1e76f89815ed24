#include "runtime/pull/progress/progress.hh"

#include <sys/eventfd.h>

#include "runtime/base/error.hh"

namespace berth::pull {

namespace {

/// Long enough to even out the bursts of a transfer, short enough to show that it has come to a halt.
constexpr double rate_window = 6;

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

const char* name_of(Phase phase) {
    static constexpr const char* names[] = {"opening", "waiting",  "asking",  "exporting", "reading",  "pulling",
                                            "merging", "removing", "writing", "saving",    "verifying"};
    return names[static_cast<size_t>(phase)];
}

const char* name_of(LayerState state) {
    static constexpr const char* names[] = {"queued", "waiting", "pulling", "converting", "saving", "done", "present"};
    return names[static_cast<size_t>(state)];
}

Meter::Meter(std::string image) : image_(std::move(image)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw SysError("preparing the display of progress");
}

LayerStatus Meter::Layer::status() const {
    LayerStatus out = known;
    out.received = received;
    return out;
}

void Meter::wake() const {
    // Fails only when the counter is full, which is as readable as can be.
    ::eventfd_write(wake_.get(), 1);
}

void Meter::push(Event event) {
    events_.push_back(std::move(event));
    wake();
}

void Meter::tell(Event::Kind kind, const std::string& line) {
    std::lock_guard lock(mutex_);
    if (told_.insert(line).second) push({kind, line});
}

void Meter::start_phase(Phase phase, const std::string& title, uint64_t total) {
    fetched_before_ += fetched_now();
    phase_times_[static_cast<size_t>(phase_)] += Clock::now() - phase_start_;
    layers_.clear();
    phase_ = phase;
    ++phase_number_;
    title_ = title;
    phase_start_ = Clock::now();
    total_ = total;
    received_ = 0;
    retry_at_.reset();
    push({.kind = Event::Kind::phase, .text = title, .phase = phase, .total = total});
}

void Meter::begin(Phase phase, const std::string& title, uint64_t total) {
    std::lock_guard lock(mutex_);
    start_phase(phase, title, total);
}

void Meter::begin_layers(const std::string& title, const std::vector<LayerStatus>& layers) {
    uint64_t total = 0;
    for (const LayerStatus& layer : layers) total += layer.total;
    std::lock_guard lock(mutex_);
    start_phase(Phase::pulling, title, total);
    for (const LayerStatus& layer : layers) layers_.emplace_back().known = layer;
}

void Meter::set_layer(size_t layer, LayerState state, const std::string& owner) {
    std::lock_guard lock(mutex_);
    LayerStatus& known = layers_[layer].known;
    if (known.state == state && known.owner == owner) return;
    known.state = state;
    known.owner = owner;
    push({.kind = Event::Kind::layer, .layer = layers_[layer].status()});
}

void Meter::retry(std::chrono::milliseconds delay, const std::string& reason) {
    std::lock_guard lock(mutex_);
    retry_at_ = Clock::now() + delay;
    push({.kind = Event::Kind::retry, .text = reason, .seconds = std::chrono::duration<double>(delay).count()});
}

void Meter::set_step(const std::optional<nodes::StepStatus>& step) {
    std::lock_guard lock(mutex_);
    step_ = step;
}

void Meter::note_from_peers(size_t layer) {
    std::lock_guard lock(mutex_);
    from_peers_ += layers_[layer].known.total;
}

void Meter::add_from_peers(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    from_peers_ += bytes;
}

uint64_t Meter::from_peers() const {
    std::lock_guard lock(mutex_);
    return from_peers_;
}

void Meter::note_published(size_t layer) {
    std::lock_guard lock(mutex_);
    published_ += layers_[layer].known.total;
}

void Meter::note_refused(const std::string& line) {
    std::lock_guard lock(mutex_);
    if (refused_.empty()) refused_ = line;
}

uint64_t Meter::published() const {
    std::lock_guard lock(mutex_);
    return published_;
}

std::string Meter::refused() const {
    std::lock_guard lock(mutex_);
    return refused_;
}

uint64_t Meter::fetched_now() const {
    uint64_t out = 0;
    for (const Layer& layer : layers_)
        if (layer.known.state != LayerState::present) out += layer.received;
    return out;
}

uint64_t Meter::fetched() const {
    std::lock_guard lock(mutex_);
    return fetched_before_ + fetched_now();
}

std::vector<plan::PhaseTime> Meter::phase_times() const {
    std::lock_guard lock(mutex_);
    std::vector<plan::PhaseTime> out;
    for (size_t i = 0; i < phase_count; ++i) {
        auto time =
            phase_times_[i] + (static_cast<Phase>(i) == phase_ ? Clock::now() - phase_start_ : Clock::duration());
        auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
        if (microseconds > 0) out.push_back({name_of(static_cast<Phase>(i)), static_cast<uint64_t>(microseconds)});
    }
    return out;
}

bool Meter::has_merged() const {
    std::lock_guard lock(mutex_);
    return phase_ == Phase::merging || phase_times_[static_cast<size_t>(Phase::merging)] > Clock::duration();
}

Status Meter::status() const {
    std::lock_guard lock(mutex_);
    auto now = Clock::now();
    Status out{.image = image_,
               .phase = phase_,
               .phase_number = phase_number_,
               .title = title_,
               .elapsed = seconds(now - start_),
               .phase_elapsed = seconds(now - phase_start_),
               .received = received_,
               .total = total_};
    for (const Layer& layer : layers_) {
        out.layers.push_back(layer.status());
        // What need not be pulled is no part of the work.
        if (layer.known.state == LayerState::present)
            out.total -= layer.known.total;
        else
            out.received += out.layers.back().received;
    }
    if (retry_at_ && *retry_at_ > now) out.retry_in = seconds(*retry_at_ - now);
    out.step = step_;
    return out;
}

std::vector<Event> Meter::take_events() {
    std::lock_guard lock(mutex_);
    eventfd_t ignored;
    ::eventfd_read(wake_.get(), &ignored);
    return std::exchange(events_, {});
}

double Rates::Window::add(double time, uint64_t bytes) {
    // The time before the first byte is no part of a transfer.
    if (bytes == 0) samples_.clear();
    samples_.push_back({time, bytes});
    // One sample that is older than the window stays: it is what the window begins with.
    while (samples_.size() > 2 && samples_[1].time <= time - rate_window) samples_.pop_front();
    const Sample& first = samples_.front();
    double passed = time - first.time;
    return passed <= 0 || bytes < first.bytes ? 0 : static_cast<double>(bytes - first.bytes) / passed;
}

void Rates::update(Status& status) {
    if (status.phase_number != phase_number_ || layers_.size() != status.layers.size()) {
        phase_number_ = status.phase_number;
        total_ = {};
        total_.add(status.elapsed - status.phase_elapsed, 0);
        layers_.assign(status.layers.size(), total_);
    }
    status.rate = total_.add(status.elapsed, status.received);
    for (size_t i = 0; i < layers_.size(); ++i)
        status.layers[i].rate = layers_[i].add(status.elapsed, status.layers[i].received);
    if (status.rate > 0 && status.total > status.received)
        status.eta = static_cast<double>(status.total - status.received) / status.rate;
}

}  // namespace berth::pull
