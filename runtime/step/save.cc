#include "runtime/step/save.hh"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"

namespace berth {

namespace {

/// So often one hears of a save that takes its time: the longer it takes, the less often.
constexpr int progress_ms = 10'000, longest_progress_ms = 1'800'000;
/// Lines of a save, so that slurmstepd takes the last one as well.
constexpr size_t most_lines = plan::said_lines - 10;
/// Of a path in a line, with words around it.
constexpr size_t said_path = plan::said_line_limit - 200;

}  // namespace

StepSaver::StepSaver(const StepStart& start, const plan::ContainerRecord& record, const std::string& name,
                     std::string path)
    : tasks_(start.tasks), path_(std::move(path)) {
    auto&& [ours, its] = sys::make_pipe();
    words_ = std::move(ours);
    std::string store = record.digest.empty() ? "" : open_store(start.site, start.caller).location();
    saver_ = std::make_unique<Saver>(SavedContainer{record, name, store, start.site.mount.modes}, path_,
                                     std::move(its));
}

void StepSaver::save(int upper, bool all_entered) {
    if (!all_entered)
        return tasks_.say(cat("not saved as ", printable(path_, said_path), ": not every task had started"));
    auto begin = std::chrono::steady_clock::now();
    saver_->begin(upper);
    std::string text;
    // Only a closed socket hangs up: while slurmstepd waits for the end of a save, it has shut one direction down.
    pollfd waiting[2] = {{words_.get(), POLLIN, 0}, {tasks_.socket(), 0, 0}};
    for (int pause_ms = progress_ms;;) {
        int ready = ::poll(waiting, 2, pause_ms);
        if (ready < 0 && errno != EINTR) throw SysError("waiting for a container to be saved");
        if (waiting[1].revents & POLLHUP) return saver_.reset();
        auto seconds =
            std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
        if (ready == 0) {
            say(cat("saving the container as ", printable(path_, said_path), " (", seconds, " s)"));
            pause_ms = std::min(pause_ms * 2, longest_progress_ms);
        }
        if (waiting[0].revents == 0) continue;
        char buffer[4096];
        ssize_t got = ::read(words_.get(), buffer, sizeof buffer);
        if (got <= 0) break;
        text.append(buffer, static_cast<size_t>(got));
        for (size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1))
            say(std::string_view(text).substr(0, end));
    }
    if (!text.empty()) say(text);
    tasks_.say(cat(is_saved() ? "saved the container as " : "the container is not saved as ",
                   printable(path_, said_path)));
}

bool StepSaver::is_saved() {
    try {
        return saver_->wait();
    } catch (const Error& error) {
        say(error.what());
        return false;
    }
}

/// Leaves out the name of berth-pull, since slurmstepd puts one before each line.
void StepSaver::say(std::string_view text) {
    if (++said_ > most_lines) return;
    if (text.starts_with("berth: ")) text.remove_prefix(7);
    tasks_.say(printable(text, plan::said_line_limit));
}

}  // namespace berth
