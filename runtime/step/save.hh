// --container-save: a step's container is saved when its last task has ended, while slurmstepd waits.
#pragma once
#include <memory>
#include <string>

#include "runtime/container/named/save.hh"
#include "runtime/step/start.hh"

namespace berth {

class StepSaver {
  public:
    /// Forks, see Saver. `path` must not be empty.
    StepSaver(const StepStart& start, const plan::ContainerRecord& record, const std::string& name, std::string path);

    /// Saves what is over the image in the directory `upper`, unless not `all_entered`. Tells the step how it goes, and
    /// stops when slurmstepd goes.
    void save(int upper, bool all_entered);

  private:
    void say(std::string_view text);
    bool is_saved();

    StepTasks& tasks_;
    std::string path_;
    size_t said_ = 0;  ///< lines but for the last one
    Fd words_;
    std::unique_ptr<Saver> saver_;
};

}  // namespace berth
