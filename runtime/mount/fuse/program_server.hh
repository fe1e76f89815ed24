// A file server that is another program: squashfuse_ll (package squashfuse), which shows one squashfs file as it is.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/pid.hh"

namespace berth::mount {

struct ProgramServerOptions {
    uid_t uid = 0;  ///< of this process, as numbered in the present user namespace
    gid_t gid = 0;
    int file = -1;        ///< the squashfs file, or one that has it at `offset`
    uint64_t offset = 0;  ///< bytes
    /// Called in the program's process before it is executed, and in that which looks after it: gives up all
    /// privileges.
    std::function<void()> confine;
};

/// A running one. Two processes: the program, and a supervisor, which has it as its child and knows how it ended. Both
/// end with the process that started them.
struct ProgramServer {
    Pid supervisor;  ///< a child that no wait for any child sees (__WALL does); empty: there is none
    pid_t program = -1;
    Fd handle;  ///< of the program
    /// a channel, readable when the program has ended: the message is a plan::Failure with a line for those who were in
    /// the container
    Fd end;

    std::vector<pid_t> processes() const {
        return supervisor ? std::vector<pid_t>{supervisor.get(), program} : std::vector<pid_t>();
    }
};

/// The path of squashfuse_ll, in the folders of a distribution's and an administrator's programs: never in those of a
/// user. Throws Error with the remedy.
std::string find_program_server();

/// Mounts the file on the directory `name` of `folder` and has `program` serve it; returns when it has answered for the
/// first time. Call with CAP_SYS_ADMIN in the user namespace that owns the mount namespace, from a process of one
/// thread. Throws Error with the program's own words.
///
/// Only the program has a descriptor of /dev/fuse. So its end, however it comes, is the end of the connection, and
/// nobody waits for an answer for ever.
ProgramServer start_program_server(const std::string& program, const ProgramServerOptions& options, int folder,
                                   const std::string& name);

/// Ends it, which must be after whatever uses its files; false when it is still there after `timeout`.
bool end_program_server(ProgramServer& server, std::chrono::milliseconds timeout);

}  // namespace berth::mount
