#include "runtime/host/accounts.hh"

#include <catch2/catch.hpp>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

using namespace berth;

TEST_CASE("accounts: what passwd(5) says", "[runtime]") {
    const char* text =
        "# 7:x:7:\nroot:x:0:0:root:/root:/bin/bash\n+nis:x:7:7::/nis:/bin/sh\nshort:x:7:7\n\nada:x:7:17:Ada "
        "L.,,,:/home/ada:\nlate:x:7:1::/:/bin/sh";
    CHECK(account_in(text, 0) == Account{"root", "", "root", "/root", "/bin/bash"});
    CHECK(account_in(text, 7) == Account{"ada", "", "Ada L.,,,", "/home/ada", ""});
    CHECK_FALSE(account_in(text, 17));
    CHECK_FALSE(account_in("", 0));
    CHECK(account_in("x:x:4294967294:1:::", 4294967294) == Account{"x", "", "", "", ""});
    CHECK_FALSE(account_in("x:x:07:1:::", 7));
}

TEST_CASE("accounts: what group(5) says", "[runtime]") {
    const char* text = "root:x:0:\nusers:x:100:ada,bob\nodd:x:5:ada:100:\n-no:x:6:";
    CHECK(group_in(text, 100) == "users");
    CHECK(group_in(text, 5) == "odd");
    CHECK_FALSE(group_in(text, 6));
    CHECK_FALSE(group_in("short:x:6", 6));
}

TEST_CASE("accounts: the files are read here only where they come first", "[runtime]") {
    const char* text =
        "# passwd: files\npasswd:\t files systemd # sss\ngroup: sss files\ngroups: files\nshadow:files\nnetgroup: "
        "files[NOTFOUND=return] nis\nhosts: compat";
    CHECK(asks_files_first(text, "passwd"));
    CHECK_FALSE(asks_files_first(text, "group"));
    CHECK(asks_files_first(text, "shadow"));
    CHECK(asks_files_first(text, "netgroup"));
    CHECK_FALSE(asks_files_first(text, "hosts"));
    CHECK_FALSE(asks_files_first(text, "gshadow"));
    CHECK_FALSE(asks_files_first("", "passwd"));
}

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
