// What a container's folder has of the ENROOT_DATA_PATH with which it was made: a file of its own, since earlier
// releases refuse a record with a key that they do not know.
#pragma once
#include <string>

#include "runtime/container/named/folder.hh"
#include "runtime/enroot/data_path.hh"

namespace berth {

/// Writes it into the folder of a container that is being made, a descriptor of which is `folder`; nothing where there
/// was no such path. Throws Error.
void note_data_path(int folder, const enroot::DataPath& path);

/// What was noted; nothing for what cannot be read.
enroot::DataPath noted_data_path(const ContainerFolder& folder, const std::string& name);

/// Whether the job whose path it is has ended on this node. False where nothing can tell.
bool is_over(const enroot::DataPath& path);

}  // namespace berth
