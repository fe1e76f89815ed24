// What podman, docker and containerd say of registries, as keys of berth.conf.
#include <filesystem>
#include <fstream>

#include "runtime/base/text.hh"
#include "runtime/cli/migrate_files.hh"
#include "runtime/config/site_file.hh"
#include "runtime/config/toml_entries.hh"
#include "runtime/migrate/migrate.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::migrate;
using Catch::Contains;

namespace {

Migration of_podman(const std::string& text) {
    Configuration from;
    from.registries = {{"registries.conf", text}};
    return migrated(from, site_reader);
}

Migration of_containerd(const std::string& host, const std::string& text) {
    Configuration from;
    from.hosts = {{cat("/etc/containerd/certs.d/", host, "/hosts.toml"), text}};
    return migrated(from, site_reader);
}

plan::Site conf_of(const Migration& migration) { return plan::parse_site(migration.conf, "berth.conf"); }

/// Those of the registries' files, a line each.
std::string told_lines(const Migration& migration) {
    std::string out;
    for (const Finding& one : migration.findings)
        if (one.place.file.find("registries") != std::string::npos ||
            one.place.file.find("certs.d") != std::string::npos)
            out += one.text() + "\n";
    return out;
}

}  // namespace

TEST_CASE("migrate: mirrors, insecure and blocked registries of podman's", "[migrate]") {
    Migration made = of_podman(R"(
unqualified-search-registries = ["docker.io"]
short-name-mode = "enforcing"
credential-helpers = ["containers-auth.json"]
[[registry]]
location = "docker.io"
[[registry.mirror]]
location = "mirror.example:5000"
insecure = true
[[registry.mirror]]
location = "second.example"
pull-from-mirror = "digest-only"
[[registry]]
prefix = "old.example"
location = "new.example"
[[registry]]
location = "plain.example:8080"
insecure = true
blocked = false
[[registry]]
prefix = "bad.example/team"
blocked = true
)");
    plan::Site site = conf_of(made);
    CHECK(site.registries["docker.io"].mirrors == std::vector<std::string>{"mirror.example:5000", "second.example"});
    CHECK(site.registries["mirror.example:5000"].plain_http);
    CHECK(site.registries["old.example"].mirrors == std::vector<std::string>{"new.example"});
    CHECK(site.registries["plain.example:8080"].plain_http);
    CHECK(site.policy.registries_denied == std::vector<std::string>{"bad.example/team"});
    CHECK(made.count(Fate::unplaced) == 0);
    CHECK_THAT(told_lines(made), Contains("kept      registries.conf:2: unqualified-search-registries = docker.io\n") &&
                                   Contains("kept      registries.conf:3: short-name-mode = enforcing: ") &&
                                   Contains("changes   registries.conf:11: registry.mirror.location = second.example "
                                            "-> registry.\"docker.io\".mirror = [\"second.example\"]: Berth asks it "
                                            "for tags and digests\n"));
}

TEST_CASE("migrate: what of podman's registries has no place is listed", "[migrate]") {
    Migration made = of_podman(R"(
credential-helpers = ["secretservice"]
additional-layer-store-auth-helper = "x"
[[registry]]
prefix = "a.example/team"
location = "b.example/other"
[[registry.mirror]]
location = "m.example/cache"
[[registry]]
prefix = "*.wild.example"
insecure = true
[[registry]]
location = "c.example"
[[registry.mirror]]
location = "proxy.example/c"
insecure = true
later = 1
)");
    CHECK(made.count(Fate::unplaced) == 6);
    CHECK(conf_of(made).registries.empty());
    std::string lines = told_lines(made);
    for (const char* line :
         {"registries.conf:2: credential-helpers = secretservice: a user's own file says it",
          "registries.conf:3: additional-layer-store-auth-helper = x: berth.conf has nothing like it",
          "registries.conf:6: registry.location = b.example/other: a mirror has the same names in Berth",
          "registries.conf:8: registry.mirror.location = m.example/cache: a mirror has the same names",
          "registries.conf:11: registry.insecure = true: no value for registry.\"*.wild.example\".plain_http",
          "registries.conf:15: registry.mirror.location = proxy.example/c: a mirror has the same names"})
        CHECK_THAT(lines, Contains(cat("no place  ", line)));
}

TEST_CASE("migrate: short names of podman's, and its first version", "[migrate]") {
    Migration made = of_podman("unqualified-search-registries = [\"quay.io\", \"docker.io\"]\n[aliases]\n"
                               "\"debian\" = \"docker.io/library/debian\"\n\"a/b\" = \"docker.io/a/b\"\n"
                               "\"fedora\" = \"registry.example/fedora\"\n\"c/d\" = \"quay.io/c/d\"\n");
    CHECK(made.count(Fate::unplaced) == 0);
    CHECK_THAT(told_lines(made),
               Contains("changes   registries.conf:1: unqualified-search-registries = quay.io, docker.io: an image") &&
                   Contains("aliases: 2 short names lead elsewhere"));
    made = of_podman("[registries.search]\nregistries = ['docker.io']\n[registries.insecure]\n"
                     "registries = ['a.example', 'b.example:5000']\n[registries.block]\nregistries = ['c.example']\n");
    plan::Site site = conf_of(made);
    CHECK((site.registries["a.example"].plain_http && site.registries["b.example:5000"].plain_http));
    CHECK(site.policy.registries_denied == std::vector<std::string>{"c.example"});
    CHECK(made.count(Fate::unplaced) == 0);
    CHECK_THAT(told_lines(of_podman("[[registry\n")), Contains("no place  registries.conf: file: it is no TOML: "));
}

TEST_CASE("migrate: containerd's hosts.toml", "[migrate]") {
    Migration made = of_containerd("docker.io", R"(server = "https://registry-1.docker.io"
[host."https://z-first.example"]
  capabilities = ["pull", "resolve"]
  ca = ["first.crt", "/etc/pki/second.crt"]
[host."http://a-second.example:5000"]
  capabilities = ["pull"]
  skip_verify = true
[host."https://push.example"]
  capabilities = ["push"]
[host."https://path.example/v2/docker"]
  capabilities = ["pull"]
  override_path = true
)");
    plan::Site site = conf_of(made);
    CHECK(site.registries["docker.io"].mirrors ==
          std::vector<std::string>{"z-first.example", "a-second.example:5000"});
    CHECK(site.registries["z-first.example"].ca == "/etc/containerd/certs.d/docker.io/first.crt");
    CHECK(site.registries["a-second.example:5000"].plain_http);
    CHECK(site.registries.size() == 3);
    CHECK(made.count(Fate::unplaced) == 3);
    CHECK_THAT(told_lines(made), Contains("no place  /etc/containerd/certs.d/docker.io/hosts.toml:7: ") &&
                                   Contains("Berth verifies every certificate") &&
                                   Contains("ca is one file: add /etc/pki/second.crt to it") &&
                                   Contains("it is not for pulls"));
    site = conf_of(of_containerd("reg.example_5000_", "server = \"http://reg.example:5000\"\n"));
    CHECK(site.registries["reg.example:5000"].plain_http);
    site = conf_of(of_containerd("reg.example", "server = \"https://other.example\"\nca = \"/x.pem\"\n"));
    CHECK(site.registries["reg.example"].mirrors == std::vector<std::string>{"other.example"});
    CHECK(site.registries["reg.example"].ca == "/x.pem");
    made = of_containerd("_default", "[host.\"https://m.example\"]\n");
    CHECK(made.count(Fate::unplaced) == 1);
}

TEST_CASE("migrate: the files of /etc are found, certificates among them", "[migrate]") {
    fixtures::TempFolder etc;
    auto write = [&](const std::string& path, const std::string& text) {
        std::filesystem::create_directories(std::filesystem::path(etc / path).parent_path());
        std::ofstream(etc / path) << text;
    };
    write("enroot/enroot.conf", "");
    write("plugstack.conf", "");
    write("containers/registries.conf", "[[registry]]\nlocation = \"a.example\"\ninsecure = true\n");
    write("containers/registries.conf.d/b.conf", "[[registry]]\nlocation = \"b.example\"\ninsecure = true\n");
    write("containers/certs.d/c.example:5000/ca.crt", "x");
    write("docker/certs.d/c.example:5000/ca.crt", "x");
    write("docker/certs.d/c.example:5000/client.key", "x");
    write("containerd/certs.d/d.example/hosts.toml", "server = \"http://d.example\"\n");
    Migration made = migrated(
        cli::read_settings({.enroot = etc / "enroot", .plugstack = etc / "plugstack.conf", .registries = etc.path()}),
        site_reader);
    plan::Site site = conf_of(made);
    for (const char* host : {"a.example", "b.example", "d.example"}) CHECK(site.registries[host].plain_http);
    CHECK(site.registries["c.example:5000"].ca == etc / "containers/certs.d/c.example:5000/ca.crt");
    CHECK_THAT(told_lines(made), Contains("berth.conf has one value for it") &&
                                   Contains("client.key: file: Berth shows no certificate of its own"));
}

TEST_CASE("toml entries: names, values and lines", "[migrate][environment]") {
    using plan::TomlEntry;
    CHECK(plan::toml_entries("b = true\na.x = [1, \"t\"]\n[[c]]\n[c.d]\n[[c]]\ne = 2.5\n", "x") ==
          std::vector<TomlEntry>{{{"b"}, {"true"}, 1},
                                 {{"a", "x"}, {"1", "t"}, 2},
                                 {{"c", "0", "d"}, {}, 4},
                                 {{"c", "1", "e"}, {""}, 6}});
    CHECK_THROWS_WITH(plan::toml_entries("a = \n", "x"), Contains("x:1:"));
}
