// Where the container of a step is reached by other steps of its user on the same node.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth {

/// The socket NODE.JOB.STEP in the user's folder in /run. The node's name is in it for machines with several slurmd.
class StepAddress {
  public:
    /// `folder` is run_directory(); `step` is JOB.STEP. Throws SysError when the user has no such folder.
    StepAddress(const std::string& folder, const std::string& node, const std::string& step);
    StepAddress(const StepAddress&) = delete;
    StepAddress& operator=(const StepAddress&) = delete;
    ~StepAddress();

    /// Makes the socket, which goes with this object. Throws Error.
    Fd listen();

    /// Empty when no such step runs. Throws Error.
    Fd connect() const;

  private:
    std::string path_;
    Fd folder_;
    std::string name_;
    bool listens_ = false;
};

/// The steps (JOB.STEP) of the job on this node that have such a socket, sorted; that of a step which was killed may be
/// among them for a moment. None when the user has no folder in /run. Throws SysError.
std::vector<std::string> steps_with_address(const std::string& folder, const std::string& node,
                                            const std::string& job);

}  // namespace berth
