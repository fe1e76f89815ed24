// The system call filter of remap-root: calls that only a real root can make are answered as if they had worked.
#pragma once
#include <string>

namespace berth::sandbox {

/// A classic BPF program (struct sock_filter, as the kernel takes it) for the native architecture and its 32-bit and x32 forms: changes of owner, of
/// ids, of groups and of capabilities, and the making of device nodes, return 0 and do nothing; all else is allowed. Throws Error.
std::string fake_root_filter();

/// Installs a program on the calling thread and all that it starts. Needs no_new_privs. Throws Error.
void install_filter(const std::string& program);

}  // namespace berth::sandbox
