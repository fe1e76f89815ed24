#include "runtime/pull/progress/display.hh"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

namespace {

/// A variable that narrows what the terminal says of itself, or stands in for it.
unsigned extent(unsigned told, const char* variable, unsigned fallback) {
    uint64_t wanted = 0;
    const char* text = std::getenv(variable);
    bool given = text != nullptr && parse_number(text, 10'000, wanted) && wanted > 0;
    if (told == 0) return given ? static_cast<unsigned>(wanted) : fallback;
    return given ? std::min(told, static_cast<unsigned>(wanted)) : told;
}

BarView::Size terminal_size() {
    // In the background the bars would be drawn over what the user does meanwhile.
    pid_t owner = ::tcgetpgrp(STDERR_FILENO);
    if (owner > 0 && owner != ::getpgrp()) return {0, 0};
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) size = {};
    return {extent(size.ws_col, "COLUMNS", 80), extent(size.ws_row, "LINES", 24)};
}

void put_on_terminal(const std::string& bytes) {
    try {
        sys::write_all(STDERR_FILENO, bytes, "the terminal");
    } catch (const Error&) {
        // It has gone; the work goes on.
    }
}

bool can_draw() {
    const char* kind = std::getenv("TERM");
    return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

}  // namespace

Display::Display(Meter& meter, View& view, std::function<void(int signal)> interrupted)
    : meter_(meter), view_(view), interrupted_(std::move(interrupted)) {
    if (interrupted_) signals_.emplace();
    thread_ = std::thread(&Display::run, this);
}

void Display::stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    meter_.wake();
    thread_.join();
    signals_.reset();
}

void Display::sleep_until(double due) const {
    double left = due - meter_.status().elapsed;
    int milliseconds = std::isinf(due) ? -1 : static_cast<int>(std::clamp(std::ceil(left * 1000), 0.0, 60'000.0));
    pollfd waiting[2] = {{meter_.descriptor(), POLLIN, 0}, {signals_ ? signals_->descriptor() : -1, POLLIN, 0}};
    // An interrupted or failed wait is a short one.
    ::poll(waiting, 2, milliseconds);
}

void Display::handle_signal() {
    int signal = signals_ ? signals_->take() : 0;
    if (signal == 0) return;
    view_.end();
    interrupted_(signal);
    die_by(signal);
}

void Display::run() {
    Rates rates;
    for (bool last = false; !last;) {
        // Read first: what was told before the stop is shown.
        last = stopping_;
        std::vector<Event> events = meter_.take_events();
        Status status = meter_.status();
        rates.update(status);
        for (const Event& event : events) view_.event(event, status);
        if (status.elapsed >= view_.due() && !last) view_.tick(status);
        // The wake of a stop may have gone with the events; one that comes from here on is found by the wait.
        if (!stopping_) sleep_until(view_.due());
        handle_signal();
    }
    view_.end();
}

std::unique_ptr<View> view_for_stderr(Put put) {
    if (can_draw()) return std::make_unique<BarView>(put_on_terminal, terminal_size);
    return std::make_unique<LineView>(std::move(put));
}

}  // namespace berth::pull
