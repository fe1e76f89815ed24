// What `enroot create -n pyxis_NAME` leaves in the user's home for other nodes, each of which has its own folder of
// containers: the record of the container, and nothing that locks or listens. Root never looks there.
#pragma once
#include <optional>
#include <string>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/plan/container.hh"

namespace berth {

/// Leaves the record of the container `name` of `folder`. Throws Error.
void note_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name);

/// The image that a container of that name is made of, as an option has it: the file's copy where the home has one, or
/// the file. Nothing when there is no record, or no home. Throws Error for a record that cannot be used.
std::optional<std::string> created_image(const plan::Caller& caller, const ContainerFolder& folder,
                                         const std::string& name);

/// True when there was a record, which is gone now.
bool forget_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name);

}  // namespace berth
