// Progress as JSON for programs: one object a line, described in berth(1). Pure.
#pragma once
#include <string>

#include "runtime/base/error.hh"
#include "runtime/pull/progress/progress.hh"

namespace berth::pull {

/// What all objects have: when and about which image.
struct JsonHead {
    std::string time;  ///< ISO 8601, UTC
    std::string image;
};

std::string json_of(const JsonHead& head, const Event& event);

/// An object for each layer that is being pulled, and one for the total, each with a line end.
std::string json_progress(const JsonHead& head, const Status& status);

/// The last line: how it ended. `bytes` were fetched.
std::string json_done(const JsonHead& head, const std::string& digest, uint64_t bytes);
std::string json_error(const JsonHead& head, const Error& error);

/// "2026-11-21T07:40:00.123Z" for milliseconds since 1970.
std::string json_time(int64_t milliseconds);

}  // namespace berth::pull
