// Progress as text for people. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/pull/progress/progress.hh"

namespace berth::pull {

/// One line for a log: what is being done, bytes, rate, the time that is left, and what is waited for. No line end.
std::string line_of(const Status& status);

/// Lines for a terminal of that many columns and rows, fewer than `rows` and each shorter than `columns`: a title, a
/// bar a layer, and the total. In printable ASCII, so that a column is a byte. Of too many layers those are left out
/// that need the least attention.
std::vector<std::string> bars_of(const Status& status, unsigned columns, unsigned rows);

/// "12 s", "3 min 5 s", "2 h 10 min".
std::string human_seconds(double seconds);

}  // namespace berth::pull
