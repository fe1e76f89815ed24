#include "runtime/host/accounts.hh"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t first_buffer = 16 << 10, largest_buffer = 16 << 20;

/// Calls `look_up`(buffer, size) with a larger buffer as long as it returns ERANGE, as for a group of many members.
template <typename LookUp>
void with_buffer(LookUp look_up) {
    for (size_t size = first_buffer; size <= largest_buffer; size *= 4) {
        std::vector<char> buffer(size);
        if (look_up(buffer.data(), size) != ERANGE) return;
    }
}

Account user_of(uid_t uid) {
    Account out;
    with_buffer([&](char* buffer, size_t size) {
        passwd entry{}, *found = nullptr;
        int number = ::getpwuid_r(uid, &entry, buffer, size, &found);
        if (found) out = {found->pw_name, "", found->pw_gecos, found->pw_dir, found->pw_shell};
        return number;
    });
    return out;
}

std::string group_name_of(gid_t gid) {
    std::string out;
    with_buffer([&](char* buffer, size_t size) {
        group entry{}, *found = nullptr;
        int number = ::getgrgid_r(gid, &entry, buffer, size, &found);
        if (found) out = found->gr_name;
        return number;
    });
    return out;
}

}  // namespace

std::optional<uid_t> uid_of_account(const std::string& account) {
    uint64_t number = 0;
    if (parse_number(account, UINT32_MAX, number)) return static_cast<uid_t>(number);
    std::optional<uid_t> out;
    with_buffer([&](char* buffer, size_t size) {
        passwd entry{}, *found = nullptr;
        int error = ::getpwnam_r(account.c_str(), &entry, buffer, size, &found);
        if (found) out = found->pw_uid;
        return error;
    });
    return out;
}

Account account_of(uid_t uid, gid_t gid) {
    Account out = user_of(uid);
    out.group = group_name_of(gid);
    return out;
}

}  // namespace berth
