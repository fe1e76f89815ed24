// The Plan as a table for people: `berth plan` prints it without doing it.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "runtime/plan/plan.hh"

namespace berth::plan {

/// A header with identity and process, then a line an edit: what, where, from where, whose wish, why. Ends with a
/// newline.
std::string plan_text(const Plan& plan);

/// The lines of its table: what, where, from where, whose wish, why.
std::vector<std::array<std::string, 5>> plan_rows(const Plan& plan);

}  // namespace berth::plan
