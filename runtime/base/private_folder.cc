#include "runtime/base/private_folder.hh"

#include <fcntl.h>
#include <stdlib.h>

#include "runtime/base/error.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/text.hh"

namespace berth {

PrivateFolder::PrivateFolder(const std::string& start, std::string_view purpose) : path_(start + ".XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw SysError(cat("making the folder ", path_, " ", purpose));
}

PrivateFolder::~PrivateFolder() {
    try {
        sys::remove_tree(AT_FDCWD, path_, path_);
    } catch (const Error&) {  // nothing of it is used again
    }
}

std::string PrivateFolder::operator/(std::string_view name) const { return cat(path_, "/", name); }

}  // namespace berth
