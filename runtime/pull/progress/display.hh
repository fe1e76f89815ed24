// Shows progress while something goes on: a thread that looks at the meter, and takes the place of the signals that end
// a program.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/base/end_signals.hh"
#include "runtime/pull/progress/views.hh"

namespace berth::pull {

class Display {
  public:
    /// With `interrupted`, the signals that end a program take what is on the screen away, call it with their number,
    /// and only then end the process. To be made before the threads that work, which inherit the blocked signals.
    Display(Meter& meter, View& view, std::function<void(int signal)> interrupted = {});
    ~Display() { stop(); }
    Display(const Display&) = delete;
    Display& operator=(const Display&) = delete;

    /// Shows the last events and leaves the screen clean.
    void stop();

  private:
    void run();
    void sleep_until(double due) const;
    void handle_signal();

    Meter& meter_;
    View& view_;
    std::function<void(int)> interrupted_;
    std::optional<EndSignals> signals_;
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

/// Bars when standard error is a terminal that can draw them, lines by `put` otherwise.
std::unique_ptr<View> view_for_stderr(Put put);

}  // namespace berth::pull
