// A terminal of the container's own for a command (--tty), and the relay between it and the caller's streams.
#pragma once
#include <poll.h>
#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth {

/// In the process that is to become a command, which has joined the container: makes it the leader of a new session
/// whose terminal is a new one of the container's devpts, with the size and the settings of the caller's, makes that
/// its standard streams, and sends the other end over `channel`. Throws Error.
void take_terminal(int channel);

/// The other end, for the caller. His terminal is in raw mode as long as this exists: every key goes to the command,
/// whose terminal makes signals of them.
class TerminalRelay {
  public:
    /// `other_end` is what take_terminal() sent. Standard input that is no terminal is passed on as it is.
    explicit TerminalRelay(Fd other_end);
    ~TerminalRelay();
    TerminalRelay(const TerminalRelay&) = delete;
    TerminalRelay& operator=(const TerminalRelay&) = delete;

    /// What to wait for, and what to do then.
    std::vector<pollfd> waiting() const;
    void move(const std::vector<pollfd>& ready);

    /// The caller's window has another size, or he has come back after he stopped the program.
    void resize() const;
    void resume() const;

    /// Shows what the command, which has ended, has written and nobody has read.
    void finish();

  private:
    void read_input();
    void read_output();
    void write_output();

    Fd terminal_;
    std::optional<termios> before_;  ///< settings of the caller's terminal
    bool input_open_ = true, output_open_ = true;
    std::string to_command_, to_caller_;
};

}  // namespace berth
