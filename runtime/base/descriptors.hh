// What a process gives up before it enters the namespaces of a container, whose processes could look into it until it
// executes a program.
#pragma once
#include <initializer_list>
#include <vector>

namespace berth::sys {

/// close_range(2), also on a kernel older than 5.9: there by /proc/self/fd, or number by number up to the limit of open
/// files where that is not to be had. Makes system calls alone, so that the child of a process with threads may call
/// it. False, with errno, for a failure.
bool close_range(unsigned first, unsigned last);

/// Closes every descriptor of the calling process but the standard streams and `kept` (numbers below 0 are left out).
/// Throws SysError.
void close_descriptors_except(std::vector<int> kept);

/// Makes each of `numbers` /dev/null, for reading and writing. Programs that are executed get them, unless `flags` has
/// O_CLOEXEC. Throws SysError.
void point_at_null(std::initializer_list<int> numbers, int flags = 0);

/// The open descriptors above the standard streams that a program executed by this process gets. Reads /proc/self/fd.
/// Throws SysError.
std::vector<int> descriptors_kept_by_exec();

/// To be called before setns(2) into a container: from here until it executes a program, no other process of the user
/// may open what this one has open
/// (/proc/PID/fd, /proc/PID/root) or trace it, and all descriptors but the standard streams and `kept` are closed.
/// Throws SysError.
void prepare_to_join(std::vector<int> kept);

}  // namespace berth::sys
