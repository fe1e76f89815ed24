// The plan of a start, printed for a user who sets BERTH_PLAN=1: what `berth plan` prints, before the container
// runs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/plan.hh"

namespace berth {

/// Writes it to the debug log: of variables the names, and nothing of what is written to files.
void log_plan(const plan::Plan& plan);

/// Whether `environment` (NAME=VALUE) asks for it. Throws Error for a value that is neither yes nor no.
bool wants_plan(const std::vector<std::string>& environment);

/// Gives `tell` the lines of the plan, without those that are empty; `digest` of the image may be empty.
void report_plan(const plan::Plan& plan, const std::string& digest,
                 const std::function<void(const std::string&)>& tell);

}  // namespace berth
