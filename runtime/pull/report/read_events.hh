// What a site's events.log has, as values again.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/telemetry/event.hh"

namespace berth::pull::report {

/// The event of a line of the log; nothing for what is none, such as half a line, or one of a later release that lacks
/// what is needed. What the line has besides is passed over.
std::optional<plan::Event> parse_event(std::string_view line);

struct EventFile {
    std::vector<plan::Event> events;  ///< in the order of the file
    size_t unread = 0;                ///< lines that are no events
};

/// Throws Error when the file cannot be read, or has more than 1 GiB.
EventFile read_events(const std::string& path);
/// The same of a file that any user may have put there: only of a regular one, by no link.
EventFile read_events_of_users(const std::string& path);

}  // namespace berth::pull::report
