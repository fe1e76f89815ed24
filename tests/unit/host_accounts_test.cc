#include "runtime/host/accounts.hh"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include "tests/catch.hh"

using namespace berth;

TEST_CASE("accounts: the same as libc's, for users that the node knows and others", "[runtime]") {
    for (uid_t uid : {uid_t{0}, uid_t{1}, ::getuid(), uid_t{3999999999}}) {
        const passwd* account = ::getpwuid(uid);
        Account expected;
        if (account) expected = {account->pw_name, "", account->pw_gecos, account->pw_dir, account->pw_shell};
        const group* named = ::getgrgid(uid);
        if (named) expected.group = named->gr_name;
        CHECK(account_of(uid, uid) == expected);
    }
}
