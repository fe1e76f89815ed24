#include "spank/join.hh"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/keyring.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

const char* name_of(uint32_t type) {
    switch (type) {
        case CLONE_NEWNS: return "mount";
        case CLONE_NEWIPC: return "ipc";
        case CLONE_NEWNET: return "network";
        case CLONE_NEWUTS: return "uts";
        default: return "own";
    }
}

void empty_capabilities(uint64_t kept) {
    auto keeps = [&](int capability) { return (kept >> capability & 1) != 0; };
    // The bounding set first: dropping from it takes a capability itself.
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
        if (!keeps(capability) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            throw SysError("dropping a capability from the bounding set");
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    auto low = static_cast<uint32_t>(kept), high = static_cast<uint32_t>(kept >> 32);
    __user_cap_data_struct sets[2] = {{low, low, low}, {high, high, high}};
    if (syscall(SYS_capset, &header, sets) != 0) throw SysError("dropping capabilities");
    // The ambient set is what a program of another user than root inside is executed with.
    for (int capability = 0; capability < 64; ++capability)
        if (keeps(capability) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
            throw SysError("keeping a capability in the container");
}

void install_seccomp(const std::string& program) {
    if (program.empty()) return;
    if (program.size() % sizeof(sock_filter) != 0 || program.size() / sizeof(sock_filter) > BPF_MAXINSNS)
        throw Error("the seccomp program from the helper has an impossible length");
    std::vector<sock_filter> filter(program.size() / sizeof(sock_filter));
    std::memcpy(filter.data(), program.data(), program.size());
    sock_fprog description{static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description, 0, 0) != 0)
        throw SysError("installing the seccomp program");
}

}  // namespace

void drop_inherited_handlers() {
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction action {};
        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL)
            signal(number, SIG_DFL);
    }
}

void enter_namespaces(std::vector<Fd> namespaces, const plan::Ready& ready) {
    std::vector<uint32_t> types = {CLONE_NEWUSER, CLONE_NEWNS};
    types.insert(types.end(), ready.namespaces.begin(), ready.namespaces.end());
    if (namespaces.size() != types.size())
        throw Error(
            "joining the container: the helper sent other namespaces than it says; install the plugin and berth from "
            "the same release");
    std::vector<int> kept = sys::descriptors_kept_by_exec();
    for (const Fd& fd : namespaces) kept.push_back(fd.get());
    sys::prepare_to_join(std::move(kept));
    sys::enter_user_namespace(namespaces[0].get());
    for (size_t i = 1; i < types.size(); ++i)
        sys::enter_namespace(namespaces[i].get(), static_cast<int>(types[i]),
                             cat("container's ", name_of(types[i]), " namespace"));
    // The image may name the directory: no magic link (/proc/self/fd/N) may lead out of the root.
    Fd root = sys::open_file("/", O_PATH | O_DIRECTORY);
    Fd directory = sys::open_in_root(root.get(), ready.workdir, O_PATH | O_DIRECTORY);
    if (fchdir(directory.get()) != 0)
        throw SysError("changing to the container's working directory " + printable(ready.workdir, 4096));
}

void give_up_privileges(const std::string& seccomp_program, uint64_t capabilities) {
    empty_capabilities(capabilities);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw SysError("setting no_new_privs");
    install_seccomp(seccomp_program);
    sys::join_own_session_keyring();
}

}  // namespace berth::spank
