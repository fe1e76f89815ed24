// What the node knows of a user's account.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace berth {

struct Account {
    std::string user, group, gecos, home, shell;
    bool operator==(const Account&) const = default;
};

/// Of the node's name service; empty texts for what nobody knows. Where its first source is the node's own files
/// (nsswitch.conf(5)), those are read here: to have libc do it takes forty system calls, most of them for a cache
/// daemon that nobody runs.
Account account_of(uid_t uid, gid_t gid);

/// What a passwd(5) file says of a user, without the group; nothing when it does not. Pure.
std::optional<Account> account_in(std::string_view passwd, uid_t uid);

/// The name that a group(5) file gives a group; nothing when it has none. Pure.
std::optional<std::string> group_in(std::string_view file, gid_t gid);

/// Whether an nsswitch.conf(5) names "files" as the first source of `database`. Pure.
bool asks_files_first(std::string_view nsswitch, std::string_view database);

}  // namespace berth
