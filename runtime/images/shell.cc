#include "runtime/images/shell.hh"

#include <memory>

#include "hooks/rootfs.hh"

namespace berth {

void take_shell(plan::Caller& caller, const ContainerImage& image) {
    std::unique_ptr<hooks::Rootfs> rootfs = hooks::rootfs_of(image);
    if (!caller.shell.empty() && rootfs->exists(caller.shell)) return;
    for (const char* shell : {"/bin/bash", "/bin/sh"})
        if (rootfs->exists(shell)) {
            caller.shell_of_image = shell;
            return;
        }
}

}  // namespace berth
