// The login shell of whoever runs in an image.
#pragma once
#include "runtime/mount/container_image.hh"
#include "runtime/request/request.hh"

namespace berth {

/// Sets `caller.shell_of_image`: where the image has not the account's shell, its /bin/bash, or else /bin/sh. Nothing
/// for an image that has neither, or the account's.
void take_shell(plan::Caller& caller, const ContainerImage& image);

}  // namespace berth
