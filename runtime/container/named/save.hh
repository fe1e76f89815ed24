// Saving a container as one squashfs file, which the program berth-pull writes.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"
#include "runtime/config/words.hh"
#include "runtime/plan/container.hh"

namespace berth {

/// A container made as `record` says, as its save wants to know it.
struct SavedContainer {
    const plan::ContainerRecord& record;
    const std::string& name;   ///< for messages
    const std::string& store;  ///< location of the store, where the image is in one
    plan::ImageModes modes;    ///< that it shows
};

/// The words after `berth-pull` that save `container`, whose upper directory is the descriptor `upper`, into
/// `output`.
std::vector<std::string> save_arguments(const SavedContainer& container, int upper, const std::string& output,
                                        const std::vector<std::string>& flags);

/// Throws Error when no file could be made at `output`: before anything is done whose result would be lost.
void check_save_folder(const std::string& output);

/// A process that stays outside of a container and saves it when it is told to: the container's server sees the node's
/// files no more.
class Saver {
  public:
    /// Forks. `output` is replaced when it exists; a folder that cannot be written to is refused now. Call before the
    /// container is started, from a process of one thread. `words` takes what would be said on standard error; empty:
    /// that is where it goes. Throws Error.
    Saver(const SavedContainer& container, const std::string& output, Fd words = {});
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;
    /// Ends the process, and what it may be writing.
    ~Saver();

    /// Has the process save what is over the image in the directory `upper`. What has ended already is told by wait().
    void begin(int upper);

    /// Returns whether there is the file. Why not has been said on standard error; throws Error where the process could
    /// not say it, since it was killed.
    bool wait();

  private:
    Fd channel_;
    Pid process_;
};

}  // namespace berth
