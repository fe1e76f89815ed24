// Descriptors that whoever started this process left open: files and locks of the node that a command in a container
// has no business with.
#pragma once
#include <string>
#include <vector>

namespace berth {

/// Those above the standard streams that are open now, but for the one that `pmi` (the value of PMI_FD, by which a
/// command of an MPI job talks to its launcher) names: a program that is executed does not get them. Call first; a
/// process that forks and stays closes them as well.
class InheritedDescriptors {
  public:
    explicit InheritedDescriptors(const std::string& pmi);
    void close() const;

  private:
    std::vector<int> numbers_;
};

/// The descriptor that PMI_FD of `environment` (NAME=VALUE) names; -1 without one, or when it is no number.
int pmi_descriptor(const std::vector<std::string>& environment);

}  // namespace berth
