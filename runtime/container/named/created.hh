// What `enroot create -n pyxis_NAME` leaves in the user's home for other nodes, each of which has its own folder of
// containers: the record of the container, and nothing that locks or listens. Root never looks there.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/plan/container.hh"

namespace berth {

/// Leaves the record of the container `name` of `folder`. Throws Error.
void note_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name);

/// What the home has recorded of a container of that name, as text; empty for nothing, and without a home. Throws Error
/// for what is no file of the user's own.
std::string created_record(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name);

/// The image that a container is made of by that record: the file's copy where the home has one,
/// or the file. Throws Error for a record that cannot be used, and where the file cannot be read.
plan::Reference image_of_created(const std::string& record, const std::string& name);

/// Notes that the container in this folder, a descriptor, is made of that record; nothing for an empty one. Throws
/// Error.
void note_made_of(int folder, const std::string& record);

/// Whether the container was made of a record, in place of which the home has this one now. What `enroot create` has
/// made on this node is its own: several nodes may each have made one, and the home has the last one's record.
bool is_made_anew(const ContainerFolder& folder, const std::string& name, const std::string& record);

/// True when there was a record, which is gone now.
bool forget_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name);

}  // namespace berth
