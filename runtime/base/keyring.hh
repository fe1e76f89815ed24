// The kernel's keyrings (keyrings(7)).
#pragma once

namespace berth::sys {

/// Has the calling process leave the session keyring that it was started with, which is its daemon's, for one that the
/// processes of its user namespace share. To be called with the filter of a container installed: where that refuses
/// keyctl(2) nothing is done, since the container's programs reach no keyring either. Throws SysError.
void join_own_session_keyring();

}  // namespace berth::sys
