// Reports for people: as text for a terminal, and as a page. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/pull/report/model.hh"

namespace berth::pull::report {

/// At most so many nodes of a step are shown, the slowest.
inline constexpr size_t nodes_shown = 64;

std::string text_of(const JobReport& report);
std::string text_of(const SiteReport& report);

/// A page of its own: one file, no scripts, nothing from elsewhere. What events say is shown as text, whatever it is.
std::string page_of(const JobReport& report);
std::string page_of(const SiteReport& report);

/// "12.3 s", "310 ms"
std::string time_text(uint64_t microseconds);
/// "2026-11-26 14:00", UTC
std::string hour_text(int64_t seconds);
/// "8 nodes", "1 node"
std::string counted(uint64_t number, const std::string& one);
/// "all ready after 4.0 s", "7 of them ready after 4.0 s", "all ready after 1.0 s, whole after 24.0 s"
std::string readiness(const StepReport& step);

}  // namespace berth::pull::report
