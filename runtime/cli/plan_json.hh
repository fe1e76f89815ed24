// The Plan as JSON, for programs: `berth plan --json`.
#pragma once
#include <string>

#include "runtime/plan/plan.hh"

namespace berth::cli {

/// One object with a newline after each edit. `digest` is the image's; empty for a file.
std::string plan_json(const plan::Plan& plan, const std::string& digest);

}  // namespace berth::cli
