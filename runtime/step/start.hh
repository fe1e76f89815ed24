// What the start of a step needs to know.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/container/start_event.hh"
#include "runtime/images/open.hh"
#include "runtime/plan/messages.hh"
#include "runtime/request/request.hh"
#include "runtime/step/tasks.hh"

namespace berth {

/// What a step asks for and by whom.
struct StepStart {
    const plan::StepRequest& step;
    plan::Request wanted;
    JobTag tag;
    plan::Caller caller;
    plan::Site site;
    PullWatch watch;
    StepTasks& tasks;
    std::string save_path = {};    ///< where this node saves the container; empty: it does not
    StartEvent* event = nullptr;  ///< of this start
};

}  // namespace berth
