// The system call filter of a container's tasks: what would only widen the kernel's surface is refused, and for
// remap-root what only a real root can do is answered as if it had worked.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/sandbox/fake_chown.hh"

namespace berth::sandbox {

struct FilterRules {
    bool confine = false;    ///< refuse the calls of refused_calls()
    /// changes of owner, ids, groups and capabilities, and the making of device nodes, return 0 and do nothing
    bool fake_root = false;
    std::vector<std::string> allow = {};  ///< names of calls that are not refused after all, nor answered by fake_root
    std::vector<std::string> deny = {};   ///< names of calls that are refused besides
    /// the x32 forms too; false is for a kernel that has none, where they would double the program
    bool x32 = true;
    /// changes of owner to other ids than these return 0 and do nothing, as all do with `fake_root`; empty: the kernel
    /// answers
    std::optional<OwnIds> own_ids = {};
};

/// Whether this kernel takes system calls in their x32 forms: built with CONFIG_X86_X32_ABI, and on Debian also booted
/// with syscall.x32=y. Never changes while it runs. Always false but on x86-64.
bool kernel_has_x32();

/// The names that `confine` refuses with EPERM, whatever their arguments.
const std::vector<std::string>& refused_calls();

/// A classic BPF program (struct sock_filter, as the kernel takes it) for the native architecture and its 32-bit and
/// x32 forms (see FilterRules); empty when the rules ask for nothing. `confine` also refuses new namespaces (unshare
/// and clone with flags of namespaces; clone3, whose flags cannot be seen, is answered with ENOSYS, and every C library
/// then takes clone), sockets of the families AF_ALG and AF_VSOCK unless a 32-bit program asks for them by socketcall,
/// and userfaultfd without UFFD_USER_MODE_ONLY; "unshare", "clone", "socket" and "userfaultfd" in `allow` lift that.
/// Throws Error naming a call that does not exist.
std::string system_call_filter(const FilterRules& rules);

/// What system_call_filter() begins with: of fake_chown(), as the rules have it.
std::string head_of_filter(const FilterRules& rules);

/// The same as system_call_filter(), from a table made when berth was built where the rules are the usual ones.
std::string filter_for(const FilterRules& rules);

/// Installs a program on the calling thread and all that it starts; nothing for an empty one. Needs no_new_privs.
/// Throws Error.
void install_filter(const std::string& program);

}  // namespace berth::sandbox
