// What the node knows of a user's account.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace berth {

struct Account {
    std::string user, group, gecos, home, shell;
    bool operator==(const Account&) const = default;
};

/// By the node's name service, see nsswitch.conf(5); empty texts for what it does not know.
Account account_of(uid_t uid, gid_t gid);

/// The uid of an account by its name, or by its number as it is; nothing for a name that the node does not know.
std::optional<uid_t> uid_of_account(const std::string& account);

}  // namespace berth
