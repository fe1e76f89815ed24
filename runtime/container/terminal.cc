#include "runtime/container/terminal.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

// What a pipe takes without waiting once it can be written to.
constexpr size_t piece = 4096;
constexpr int terminal_answer_ms = 10'000;
// How long the output of a command that has ended is waited for, and shown at most: what it left running can write for
// ever.
constexpr int silence_ms = 100;
constexpr auto last_output = std::chrono::seconds(2);

/// A new terminal of the /dev/pts that lies beside /dev/ptmx. What an image or a mount may have put there instead is
/// not used.
Fd new_terminal() {
    const std::string doing = "making a terminal in the container";
    Fd out(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!out) throw SysError(cat(doing, ": opening /dev/ptmx"));
    struct stat st = sys::stat_of(out.get(), "/dev/ptmx");
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2))
        throw Error(cat(doing, ": /dev/ptmx is not what makes terminals; leave out the mount that covers it"));
    int unlocked = 0;
    if (::ioctl(out.get(), TIOCSPTLCK, &unlocked) != 0) throw SysError(doing);
    return out;
}

/// The caller's terminal among the standard streams; -1 for none.
int caller_terminal() {
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::isatty(fd)) return fd;
    return -1;
}

/// Size and settings, as far as there is a terminal to take them from.
void imitate(int terminal) {
    int model = caller_terminal();
    winsize size{};
    termios settings{};
    if (model >= 0 && ::ioctl(model, TIOCGWINSZ, &size) == 0) ::ioctl(terminal, TIOCSWINSZ, &size);
    if (model >= 0 && ::tcgetattr(model, &settings) == 0) ::tcsetattr(terminal, TCSANOW, &settings);
}

}  // namespace

void take_terminal(int channel) {
    Fd other_end = new_terminal();
    Fd terminal(::ioctl(other_end.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal) throw SysError("opening the new terminal of the container");
    imitate(terminal.get());
    if (::setsid() < 0 || ::ioctl(terminal.get(), TIOCSCTTY, 0) != 0) throw SysError("giving the command its terminal");
    send_message(channel, {}, {other_end.get()}, terminal_answer_ms);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::dup2(terminal.get(), fd) < 0) throw SysError("giving the command its terminal");
}

TerminalRelay::TerminalRelay(Fd other_end) : terminal_(std::move(other_end)) {
    // Whoever reads the output may go before the command does.
    ::signal(SIGPIPE, SIG_IGN);
    termios now{};
    if (::tcgetattr(STDIN_FILENO, &now) != 0) return;
    before_ = now;
    resume();
}

TerminalRelay::~TerminalRelay() {
    // Also of a program in the background, which would be stopped for it.
    ::signal(SIGTTOU, SIG_IGN);
    if (before_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

void TerminalRelay::resume() const {
    resize();
    if (!before_) return;
    termios raw = *before_;
    ::cfmakeraw(&raw);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void TerminalRelay::resize() const {
    int model = caller_terminal();
    winsize size{};
    if (model >= 0 && ::ioctl(model, TIOCGWINSZ, &size) == 0) ::ioctl(terminal_.get(), TIOCSWINSZ, &size);
}

std::vector<pollfd> TerminalRelay::waiting() const {
    // Nothing more is read than can be passed on, so that a slow end slows the other down.
    bool read_output = output_open_ && to_caller_.empty(), read_input = input_open_ && to_command_.empty();
    short terminal = static_cast<short>((read_output ? POLLIN : 0) | (to_command_.empty() ? 0 : POLLOUT));
    // A closed descriptor is always ready.
    return {{terminal != 0 ? terminal_.get() : -1, terminal, 0},
            {read_input ? STDIN_FILENO : -1, POLLIN, 0},
            {to_caller_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
}

void TerminalRelay::move(const std::vector<pollfd>& ready) {
    if (ready[2].revents != 0) write_output();
    if ((ready[0].revents & ~POLLOUT) != 0 && to_caller_.empty()) read_output();
    if (ready[1].revents != 0) read_input();
    if (to_command_.empty()) return;
    ssize_t put = ::write(terminal_.get(), to_command_.data(), to_command_.size());
    if (put > 0) to_command_.erase(0, static_cast<size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) to_command_.clear();
}

void TerminalRelay::read_input() {
    char buffer[piece];
    ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got > 0) to_command_.append(buffer, static_cast<size_t>(got));
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    // The end of a pipe or file becomes what a person would type.
    input_open_ = false;
    termios settings{};
    if (::tcgetattr(terminal_.get(), &settings) == 0) to_command_ += static_cast<char>(settings.c_cc[VEOF]);
}

void TerminalRelay::read_output() {
    char buffer[piece];
    ssize_t got = ::read(terminal_.get(), buffer, sizeof buffer);
    if (got > 0) to_caller_.append(buffer, static_cast<size_t>(got));
    // EIO: nobody has the terminal open.
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) output_open_ = false;
}

void TerminalRelay::write_output() {
    ssize_t put = ::write(STDOUT_FILENO, to_caller_.data(), to_caller_.size());
    if (put > 0) to_caller_.erase(0, static_cast<size_t>(put));
    // Nobody reads it: the command goes on, as it does with a window that is closed.
    if (put < 0 && errno != EAGAIN && errno != EINTR) to_caller_.clear();
}

void TerminalRelay::finish() {
    auto end = std::chrono::steady_clock::now() + last_output;
    while ((output_open_ || !to_caller_.empty()) && std::chrono::steady_clock::now() < end) {
        pollfd wait[2] = {{output_open_ && to_caller_.empty() ? terminal_.get() : -1, POLLIN, 0},
                          {to_caller_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
        if (::poll(wait, 2, silence_ms) <= 0) return;
        if (wait[1].revents != 0)
            write_output();
        else
            read_output();
    }
}

}  // namespace berth
