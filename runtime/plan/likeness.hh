// Whether two starts would make the same container. Pure.
#pragma once
#include <string>

#include "runtime/plan/plan.hh"

namespace berth::plan {

/// All of a plan that shapes the container, as a text for comparing: of two plans with equal ones, the processes of
/// either can run in the container that the other made. What a process has for itself is not in it: its environment,
/// command and working directory (but for one that the container has to be made with), reasons, and who asked.
std::string likeness(const Plan& plan);

}  // namespace berth::plan
