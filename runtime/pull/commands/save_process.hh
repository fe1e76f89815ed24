// What a process becomes that writes a file of a tree which the caller's containers, or the caller, have made.
#pragma once

namespace berth::pull {

/// Becomes able to read all files of the caller, whatever their modes: containers write files of mode 0 (/etc/shadow).
/// For a process of one thread.
void read_everything();

/// From now on a signal that ends the process takes away what has been written so far. For a process of one thread.
void abandon_at_signals();

}  // namespace berth::pull
