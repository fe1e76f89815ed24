// The debug log, for who looks for a cause: what each part of Berth has decided, and why. Off until start().
//
// No line has a login, a token, a password, the value of a variable, or words of a command. What is written names
// things: paths, digests, hosts, names of variables.
#pragma once
#include <atomic>
#include <string>
#include <string_view>

#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"

namespace berth::debug {

/// Whether this value of BERTH_LOG asks for the log: "debug". None (null or empty) and "off" do not. Throws Error for
/// anything else. Pure.
bool is_wanted(const char* value);

/// The same for a program that others start, who have told of a mistake: false for one.
bool asks_for_log(const char* value) noexcept;

/// Writes lines from here on, each as "berth: LINE", to standard error, of which it keeps a descriptor of its own.
/// `program` is who says so. Before there are threads, as the other two. A child has the log of its parent.
void start(const std::string& program);

/// The same, each line as a packet to a socket (SOCK_SEQPACKET). What its reader does not take at once is lost.
void start(const std::string& program, Fd socket);

/// The same, as lines "log LINE" on standard output, for the program that has started this one.
void start_in_report(const std::string& program);

/// Nothing is written any more. From any thread.
void silence();

/// The same, and nothing stays open because of the log. While no other thread writes.
void end();

/// A socket for the log of a child that must not keep this process's standard error open; what comes over it is written
/// here, before the next line. Empty where there is no log, or one that every child may keep.
Fd socket_for_child();

/// Where lines go; -1 when there is no log. A thread that leaves the process's descriptors keeps this one.
int descriptor();

/// A line as another process has made it.
void pass(std::string_view line);

namespace detail {
inline std::atomic<bool> is_on = false;
void write(std::string_view part, std::string_view text);
}  // namespace detail

inline bool is_on() {
    return detail::is_on.load(std::memory_order_relaxed);
}

/// A line of the part of Berth with this name, with the time (UTC) and the process; `parts` are as for cat(). Does
/// nothing when there is no log. From any thread; never throws.
template <typename... Parts>
void log(std::string_view part, const Parts&... parts) noexcept {
    if (!is_on()) return;
    try {
        detail::write(part, cat(parts...));
    } catch (...) {
        // Of a log alone nothing fails.
    }
}

/// The line "debug 2026-11-30T18:05:09.012345Z berth[4711] image: text": `microseconds` since 1970. Control characters
/// of `text` are written as \xNN, and what is longer than 2,000 bytes is cut. Pure.
std::string line_of(std::string_view program, int process, uint64_t microseconds, std::string_view part,
                    std::string_view text);

}  // namespace berth::debug
