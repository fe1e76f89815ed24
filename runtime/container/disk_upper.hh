// What a container without a name writes, on disk (mount.upper): a folder of its own, which goes with it.
#pragma once
#include <string>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"
#include "runtime/config/site.hh"
#include "runtime/container/start.hh"
#include "runtime/request/request.hh"

namespace berth {

/// The folder of mount.upper for this start; empty: memory, as the site says, or outside of the job that it names.
std::string upper_folder(const plan::Site& site, const plan::Caller& caller, const plan::Job& job);

/// Owns FOLDER/berth-UID/HOST.PID.RANDOM, with the directories upper and work. A process of its own removes it when
/// this object, or the process that has it, ends, however that comes: it is born before the container, and sees the
/// node.
class DiskUpper {
  public:
    /// Memory.
    DiskUpper() = default;
    DiskUpper(DiskUpper&&) = default;
    DiskUpper& operator=(DiskUpper&&) = default;
    ~DiskUpper() { remove(); }
    /// Makes it in `folder`, which is made when it is missing; nothing for an empty text. What dead processes of the
    /// user have left there is removed first. `mark`: a file, or empty, that names the folder as long as something of
    /// this container is in it. Throws Error.
    explicit DiskUpper(const std::string& folder, const std::string& mark = {});

    ContainerStorage storage() const;

    /// Removes it, once the container has ended; returns when that is done.
    void remove();

  private:
    std::string path_;
    Fd held_;  ///< the folder, locked: should the other process be killed first
    Fd life_;  ///< its end is the other process's sign
    Pid remover_;
};

/// Removes what a container has left whose server and remover were killed: what no process holds in the folder that
/// `mark` names, and then the mark. Nothing when there is none. Throws Error.
void remove_left_upper(const std::string& mark);

}  // namespace berth
