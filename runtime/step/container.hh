// The container of a step on one node: made for the step alone, or one with a name that others use as well.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/step/start.hh"
#include "runtime/step/tasks.hh"

namespace berth {

class StepContainer {
  public:
    virtual ~StepContainer() = default;

    /// The answer to a task, or to another step that would join: how to join, or a failure.
    virtual StepTasks::Answer answer(const plan::TaskRequest& task) = 0;

    /// After the last task: ends what the step has of the container, then saves it if that is asked for and
    /// `all_entered`: every task got that far. What happens to the save is said to the step.
    virtual void end(bool all_entered) = 0;
};

/// The table of contents of a step's start. Turns the process into the container's server when the container is the
/// step's alone. Throws Error.
std::unique_ptr<StepContainer> start_step_container(StepStart start);

}  // namespace berth
