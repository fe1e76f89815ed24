#include "runtime/pull/progress/views.hh"

#include <limits>

#include "runtime/base/text.hh"
#include "runtime/pull/progress/progress_text.hh"

namespace berth::pull {

namespace {

constexpr double first_line = 1, line_interval = 5, look_interval = 1;
constexpr double json_interval = 1;
constexpr double frame_interval = 0.2;

std::string retry_line(const Event& event) {
    return cat("trying again in ", human_seconds(event.seconds), ": ", event.text);
}

}  // namespace

NoView::NoView() { due_ = std::numeric_limits<double>::infinity(); }

LineView::LineView(Put put) : put_(std::move(put)) { due_ = first_line; }

void LineView::event(const Event& event, const Status& status) {
    bool early = status.elapsed < first_line;
    switch (event.kind) {
        case Event::Kind::warning:
            return put_(cat("warning: ", event.text));
        case Event::Kind::retry:
            return put_(retry_line(event));
        case Event::Kind::note:
            return early ? notes_.push_back(event.text) : put_(event.text);
        case Event::Kind::phase:
        case Event::Kind::layer:
            // A wait is worth a line of its own; the other changes are in the next one.
            if (!early && (event.phase == Phase::waiting || event.layer.state == LayerState::waiting))
                put_(line_of(status));
            return;
    }
}

void LineView::tick(const Status& status) {
    for (const std::string& note : notes_) put_(note);
    notes_.clear();
    // One node tells people of all. Should it be done before the others, another one's turn comes.
    bool is_told_elsewhere = status.step && !status.step->is_told_here;
    if (!is_told_elsewhere) put_(line_of(status));
    due_ = status.elapsed + (is_told_elsewhere ? look_interval : line_interval);
}

JsonView::JsonView(Put put, std::function<JsonHead()> head) : put_(std::move(put)), head_(std::move(head)) {
    due_ = json_interval;
}

void JsonView::event(const Event& event, const Status&) { put_(json_of(head_(), event)); }

void JsonView::tick(const Status& status) {
    put_(json_progress(head_(), status));
    due_ = status.elapsed + json_interval;
}

BarView::BarView(Put put, std::function<Size()> size) : put_(std::move(put)), size_(std::move(size)) {
    due_ = frame_interval;
}

/// Back to where the last drawing began.
std::string BarView::up() const { return drawn_ == 0 ? "" : cat("\x1b[", drawn_, "A"); }

void BarView::event(const Event& event, const Status& status) {
    if (event.kind == Event::Kind::phase || event.kind == Event::Kind::layer) return;
    std::string line = event.kind == Event::Kind::warning ? cat("warning: ", event.text)
                       : event.kind == Event::Kind::retry ? retry_line(event)
                                                          : event.text;
    // Stays above the bars.
    put_(cat(up(), "\r\x1b[J", line, "\n"));
    drawn_ = 0;
    if (status.elapsed >= due_) tick(status);
}

void BarView::tick(const Status& status) {
    due_ = status.elapsed + frame_interval;
    Size size = size_();
    if (size.columns == 0) return;
    std::string frame = up() + "\r";
    std::vector<std::string> lines = bars_of(status, size.columns, size.rows);
    for (const std::string& line : lines) frame += cat(line, "\x1b[K\n");
    put_(frame + "\x1b[J");
    drawn_ = lines.size();
}

void BarView::end() {
    if (drawn_ > 0) put_(cat(up(), "\r\x1b[J"));
    drawn_ = 0;
}

}  // namespace berth::pull
