// The processes in containers of the caller's, as /proc has them.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/enroot/list.hh"

namespace berth::cli {

struct ContainerProcess {
    std::string source;  ///< of the mount that is its root, see ContainerStorage
    std::string step;    ///< "JOB.STEP" of the step that it says it is of; empty: none
    ino_t mount_namespace = 0;
    enroot::ListedProcess listed;
};

/// One for each mount namespace: the process of the lowest number. What serves a container is not among them.
std::vector<ContainerProcess> container_processes();

}  // namespace berth::cli
