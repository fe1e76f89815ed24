// Reports a start outside of Slurm to the site.
#pragma once
#include <functional>

#include "runtime/cli/run_options.hh"
#include "runtime/config/site.hh"
#include "runtime/container/start_event.hh"
#include "runtime/request/request.hh"

namespace berth::cli {

/// Does `start` with the caller's settings and an event, which it says when to tell; an error of it is told here.
/// Returns its result.
int start_report(const RunOptions& options,
               const std::function<int(const plan::Site& site, plan::Caller& caller, StartEvent& event)>& start);

}  // namespace berth::cli
