// What this process may do with a file, where "no" and "not known" are not the same.
#pragma once
#include <string>

namespace berth::sys {

/// True when access(2) allows `mode` (F_OK, R_OK, W_OK, X_OK); follows symlinks. False, with errno, when there is no
/// such file or the caller may not. Throws SysError when that cannot be known, as with ENOMEM or EIO: what is decided
/// by the answer would be decided wrong.
bool may_access(const std::string& path, int mode);

}  // namespace berth::sys
