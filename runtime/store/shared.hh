// Stores that a site offers to all users (store.shared): opened for reading when nobody but their account, or root, can
// have written them.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/store/reader.hh"

namespace berth::store {

/// Opens the store at the absolute path `path`. Nothing when there is none. Throws Error, in one line, when the folder
/// is not `owner`'s or root's, when somebody else can write to it or exchange a folder on the way to it, or when a
/// symlink is on the way.
std::optional<Reader> open_shared(const std::string& path, std::optional<uid_t> owner);

/// The first object of a store that readers pass over, with the reason; empty when there is none. For berth doctor.
std::string problem_in_shared(const Reader& store);

/// What an index says in place of the file name of a layer that lies in a shared store: the name, and which of its
/// conversions it is. The blocks of another one would be elsewhere. Throws SysError.
std::string shared_layer_name(int fd, const std::string& file);
/// The file name in such a text; empty for the name of a layer in the store of the index itself.
std::string file_of_shared_layer(const std::string& name);

}  // namespace berth::store
