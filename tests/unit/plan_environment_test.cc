#include "runtime/plan/plan.hh"

#include <algorithm>

#include "runtime/base/text.hh"
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

TEST_CASE("environment: no task learns the secret by which the step's nodes share its image", "[plan][share]") {
    EnvironmentRules rules;
    for (const char* name : {"SLURM_BERTH_MEETING", "SLURM_BERTH_FROZEN"}) {
        auto changes = environment_changes(rules, {berth::cat(name, "=debian:12 4000 abcdef"), "SLURM_JOB_ID=7"});
        bool is_removed = std::any_of(changes.begin(), changes.end(), [&](const EnvironmentChange& change) {
            return change.name == name && !change.value;
        });
        CHECK(is_removed == (name == std::string("SLURM_BERTH_MEETING")));
    }
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

TEST_CASE("environment: a user's file wins over the image and the site, and sees their values", "[plan][environment]") {
    EnvironmentRules rules;
    rules.image = {"PATH=/opt/bin", "A=image", "GONE=image"};
    rules.set = {"HOME=/root"};
    rules.user = {"PATH=${PATH}:/custom", "A=file", "B=${A}-${HOST}-$${A}", "GONE=", "HOME=/h", "KEPT=file"};
    rules.keep_host = {"KEPT"};
    Changes expected = {{"PATH", "/opt/bin:/custom"}, {"A", "file"},  {"B", "image-h-${A}"},
                        {"GONE", std::nullopt},       {"HOME", "/h"}};
    CHECK(environment_changes(rules, {"PATH=/usr/bin", "HOST=h", "HOME=/home/u", "KEPT=host"}) == expected);
    // Where the task has none, the file's value counts although --container-env names it.
    expected.push_back({"KEPT", "file"});
    CHECK(environment_changes(rules, {"PATH=/usr/bin", "HOST=h", "HOME=/home/u"}) == expected);
}

TEST_CASE("environment: a user's file that names a variable which is not set", "[plan][environment]") {
    EnvironmentRules rules;
    rules.user = {"A=${MISSING}"};
    CHECK_THROWS_WITH(environment_changes(rules, {}), Catch::Matchers::Equals(
        "--container-environment: env.A: the variable MISSING is not set; set it, or write ${MISSING:-WORD} for the "
        "word to take then"));
    rules.user = {"A=${MISSING:-}", "B=${MISSING:-word}"};
    CHECK(environment_changes(rules, {"A=x"}) == Changes{{"A", std::nullopt}, {"B", "word"}});
}

TEST_CASE("environment: a user's file chooses devices as the job does", "[plan][environment]") {
    Request request;
    CHECK(with_device_variables({"A=1"}, request) == std::vector<std::string>{"A=1"});
    request.variables = {"NVIDIA_VISIBLE_DEVICES=0", "PATH=${PATH}:/x", "GONE=", "KEPT=file"};
    request.env = {"KEPT"};
    request.devices = {"vendor.com/b=2", "vendor.com/b=3"};
    CHECK(with_device_variables({"NVIDIA_VISIBLE_DEVICES=all", "PATH=/bin", "GONE=x", "KEPT=job",
                                 "BERTH_DEVICES=vendor.com/a=1"},
                                request) ==
          std::vector<std::string>{"PATH=/bin", "KEPT=job", "NVIDIA_VISIBLE_DEVICES=0",
                                   "BERTH_DEVICES=vendor.com/a=1,vendor.com/b=2,vendor.com/b=3"});
}

TEST_CASE("account lines replace those of the same number or name", "[plan]") {
    AccountLine edit{"/etc/passwd", "alice:x:2001:2001::/home/alice:/bin/bash", 2};
    CHECK(with_account_line("", edit) == edit.line + "\n");
    CHECK(with_account_line("root:x:0:0::/root:/bin/sh\n", edit) == "root:x:0:0::/root:/bin/sh\n" + edit.line + "\n");
    CHECK(with_account_line("ubuntu:x:2001:2001::/:/bin/sh\nalice:x:5:5::/:/bin/sh\nbob:x:6:6::/:\n", edit) ==
          "bob:x:6:6::/:\n" + edit.line + "\n");
    CHECK(with_account_line("no newline:x:9:9", edit) == "no newline:x:9:9\n" + edit.line + "\n");
}

TEST_CASE("environment: the account says what nobody else has set, as after srun --export=NONE", "[plan]") {
    EnvironmentRules rules;
    rules.account = {"HOME=/home/al", "SHELL=/bin/bash", "USER=al", "LOGNAME=al"};
    CHECK(environment_changes(rules, {"SLURM_JOB_ID=7"}).size() == 4);
    CHECK(environment_changes(rules, {"HOME=/h", "SHELL=/bin/sh", "USER=u", "LOGNAME=l"}).empty());
    CHECK(environment_changes(rules, {"HOME=", "SHELL=/bin/sh", "USER=u", "LOGNAME=l"}) ==
          Changes{{"HOME", "/home/al"}});
    rules.image = {"HOME=/image"};
    CHECK(environment_changes(rules, {"SHELL=/bin/sh", "USER=u", "LOGNAME=l"}) == Changes{{"HOME", "/image"}});
}
