// The files of counters in the site's folder, one a user: UID.counters.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/telemetry/counters.hh"

namespace berth {

/// Opens or makes the file of `uid`, the caller. Throws Error when it cannot, or when the file is not this user's
/// alone.
Fd open_counters(const std::string& folder, uid_t uid);

/// Adds one event to an opened file, under its lock. Gives up (false) when another process keeps the lock for a tenth
/// of a second: a count is not worth a wait. Throws SysError.
bool count_event(int file, const plan::Event& event);

struct CountersSum {
    plan::Counters counters;
    size_t files = 0;
    std::vector<std::string> refused;  ///< a line for each file that was not summed
};

/// The counters of `uid` alone, or with uid 0 of all users. Each file is its owner's word and read as such: a plain
/// file of the right owner and of exactly the form, never waited for. Throws Error when the folder cannot be read.
CountersSum sum_counters(const std::string& folder, uid_t uid);

/// Those of all users where each has a folder: `folders` is its path with %U for the uid, in the last part of the
/// path. A user's folder is entered as warily as its file is read.
CountersSum sum_all_counters(const std::string& folders);

}  // namespace berth
