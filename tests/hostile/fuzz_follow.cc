// What the helper, a process of the user's, says to slurmstepd: packets, each with two bytes of length, the lower one
// first, before it.
#include <sys/socket.h>

#include "runtime/base/fd.hh"
#include "runtime/plan/messages.hh"
#include "spank/follow.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

/// False when there is no room for more.
bool send(int socket, std::string_view packet) {
    return ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

void run(std::string_view input) {
    std::pair<Fd, Fd> ends = make_channel();
    Fd &ours = ends.first, &its = ends.second;
    bool open = true;
    hostile::refusing([&] {
        size_t lines = 0;
        for (spank::HelperLines said; open;) {
            size_t size = hostile::take_byte(input);
            size += size_t{hostile::take_byte(input)} << 8;
            // An empty packet ends the connection for who reads it.
            if (input.empty() || !send(its.get(), hostile::take(input, size))) its.reset();
            auto status = said.read(ours.get());
            open = status != spank::HelperLines::Status::closed;
            if (status != spank::HelperLines::Status::message) continue;
            std::string line = said.take();
            must(++lines <= plan::said_lines, "more lines are taken than the limit");
            must(hostile::is_plain_line(line) && line.size() <= 4 * plan::said_limits.packet,
                 "a line has control characters in it, or no end");
        }
    });
}

const hostile::Registration registration("follow", run);

}  // namespace
