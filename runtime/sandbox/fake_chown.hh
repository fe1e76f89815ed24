// Changes of owner that a container of one user cannot make, answered as if they had worked.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::sandbox {

/// The only ids that a container has.
struct OwnIds {
    uid_t uid = 0;
    gid_t gid = 0;
    bool operator==(const OwnIds&) const = default;
};

/// The head of a system call filter, as bytes of struct sock_filter: chown and its relatives, in all forms that the
/// processor has, return 0 and do nothing when they name another id than `own` or -1. All other calls, and those with
/// these ids, go on to the program that follows it. Calls in `except` are left out. libseccomp cannot build it: it
/// compares each argument once (docs/adr/0189).
std::string fake_chown(const OwnIds& own, const std::vector<std::string>& except, bool x32);

}  // namespace berth::sandbox
