// What the node knows of a user's account.
#pragma once
#include <sys/types.h>

#include <string>

namespace berth {

struct Account {
    std::string user, group, gecos, home, shell;
    bool operator==(const Account&) const = default;
};

/// By the node's name service, see nsswitch.conf(5); empty texts for what it does not know.
Account account_of(uid_t uid, gid_t gid);

}  // namespace berth
