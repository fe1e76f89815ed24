// A connection to srun's machine.
#pragma once
#include <chrono>
#include <string>

#include "runtime/base/fd.hh"

namespace berth::pull {

/// 0 when the socket has `events` within the time, else an error number.
int waited(int socket, short events, std::chrono::milliseconds patience);

struct Connected {
    Fd socket;        ///< does not block; empty when there is no connection
    std::string why;  ///< then
};

/// Tries each address that the host has, `patience` for each.
Connected connect_to(const std::string& host, const std::string& port, std::chrono::milliseconds patience);

/// The socket tells within some ten seconds that the other machine is gone, and sends at once. Without a socket's own
/// settings it works all the same.
void keep_alive(int socket);

}  // namespace berth::pull
