// The table of `enroot list --fancy`, and what ps(1) shows of a process in it. Pure.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::enroot {

/// A process as the columns PID to COMMAND have it.
struct ListedProcess {
    pid_t pid = 0;
    std::string comm, state, started, time, mount_namespace, user_namespace, command;
};

struct ListedContainer {
    std::string name;
    std::vector<ListedProcess> processes;
};

/// What /proc has of a process.
struct ProcessFacts {
    pid_t pid = 0;
    std::string_view stat, cmdline;  ///< the files of these names
    ino_t mount_namespace = 0, user_namespace = 0;
};

/// When it is, for the columns STARTED and TIME.
struct Clock {
    int64_t now = 0, boot = 0;  ///< seconds since 1970
    uint64_t ticks = 100;       ///< of /proc/PID/stat in a second
};

/// In the formats of ps(1): stat, stime, etime, command. Throws Error for a /proc/PID/stat that is none.
ListedProcess listed(const ProcessFacts& facts, const Clock& clock);

/// The heading, and a line for each process; that of a container without one has its name alone. Columns are as
/// column(1) sets them: two blanks between.
std::string fancy_table(const std::vector<ListedContainer>& containers);

}  // namespace berth::enroot
