#include "runtime/plan/plan.hh"

#include "tests/catch.hh"

using namespace berth::plan;
using Changes = std::vector<EnvironmentChange>;

TEST_CASE("what slurmd was handed of Slurm's configuration is found in the container", "[plan]") {
    EnvironmentRules rules;
    const std::string handed = "SLURM_CONF=/var/spool/slurmd/conf-cache/slurm.conf";
    CHECK(environment_changes(rules, {handed}).empty());
    rules.slurm_conf = "/run/slurm/conf/slurm.conf";
    CHECK(environment_changes(rules, {handed}) == Changes{{"SLURM_CONF", "/run/slurm/conf/slurm.conf"}});
    // One that the user names is the user's affair.
    CHECK(environment_changes(rules, {"SLURM_CONF=/home/alice/slurm.conf"}).empty());
    CHECK(environment_changes(rules, {}).empty());
}

TEST_CASE("environment: the image wins, --container-env reverses", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"PATH=/opt/bin", "FOO=image", "BAR=image", "SAME=1"};
    rules.keep_host = {"FOO", "UNSET"};
    CHECK(environment_changes(rules, {"PATH=/usr/bin", "FOO=host", "SAME=1", "SLURM_JOB_ID=7"}) ==
          Changes{{"BAR", "image"}, {"PATH", "/opt/bin"}});
}

TEST_CASE("environment: an unset host variable of --container-env leaves the image's", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"FOO=image"};
    rules.keep_host = {"FOO"};
    CHECK(environment_changes(rules, {}) == Changes{{"FOO", "image"}});
}

TEST_CASE("environment: the host's locale goes, the image's stays", "[plan]") {
    EnvironmentRules rules;
    rules.remove = {"LANG", "LC_ALL"};
    rules.image = {"LANG=C.UTF-8"};
    CHECK(environment_changes(rules, {"LANG=de_DE", "LC_ALL=de_DE"}) ==
          Changes{{"LANG", "C.UTF-8"}, {"LC_ALL", std::nullopt}});
    rules.keep_host = {"LANG", "LC_ALL"};
    CHECK(environment_changes(rules, {"LANG=de_DE", "LC_ALL=de_DE"}).empty());
}

TEST_CASE("hostile row 57: environment values are byte-exact", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"A=line\nbreak", "B=a=b=c", "LD_PRELOAD=/evil.so", "BERTH_STORE_PATH=/x", "EMPTY=", "novalue", "=x"};
    CHECK(environment_changes(rules, {}) == Changes{{"A", "line\nbreak"},
                                                    {"B", "a=b=c"},
                                                    {"BERTH_STORE_PATH", "/x"},
                                                    {"EMPTY", ""},
                                                    {"LD_PRELOAD", "/evil.so"}});
}

TEST_CASE("environment: the last of two image values counts", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"A=1", "A=2"};
    CHECK(environment_changes(rules, {}) == Changes{{"A", "2"}});
}

TEST_CASE("account lines replace those of the same number or name", "[plan]") {
    AccountLine edit{"/etc/passwd", "alice:x:2001:2001::/home/alice:/bin/bash", 2};
    CHECK(with_account_line("", edit) == edit.line + "\n");
    CHECK(with_account_line("root:x:0:0::/root:/bin/sh\n", edit) == "root:x:0:0::/root:/bin/sh\n" + edit.line + "\n");
    CHECK(with_account_line("ubuntu:x:2001:2001::/:/bin/sh\nalice:x:5:5::/:/bin/sh\nbob:x:6:6::/:\n", edit) ==
          "bob:x:6:6::/:\n" + edit.line + "\n");
    CHECK(with_account_line("no newline:x:9:9", edit) == "no newline:x:9:9\n" + edit.line + "\n");
}
