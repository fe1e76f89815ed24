#include <map>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/size.hh"
#include "runtime/request/unknown_variables.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

std::string refusal(const std::string& text) {
    try {
        parse_site(text, "berth.conf");
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("site file: values and defaults", "[config]") {
    Site site = parse_site(
        "[store]\npath = \"/scratch/%u\"\npull = \"missing\"\n[limits]\ntmpfs_size = \"2G\"\nstore_size = "
        "\"1T\"\nstore_age = "
        "30\n[registry.\"reg:5000\"]\nplain_http = true\n",
        "berth.conf");
    CHECK(site.store.path == "/scratch/%u");
    CHECK(site.store.pull == PullPolicy::missing);
    CHECK(site.limits.tmpfs_size == 2ULL << 30);
    CHECK(site.limits.store_size == 1ULL << 40);
    CHECK(site.limits.store_age == 30);
    Site packed = parse_site(
        "[store]\ncompression = \"lz4\"\ncompression_level = 9\n[network]\nconnections = 16\n[limits]\npull_memory = "
        "\"1G\"\n",
        "berth.conf");
    CHECK(packed.store.compression == LayerCodec::lz4);
    CHECK(packed.store.compression_level == 9);
    CHECK(packed.network.connections == 16);
    CHECK(packed.limits.pull_memory == 1ULL << 30);
    CHECK(site.registries.at("reg:5000").plain_http);
    CHECK(site.defaults.writable);
    Site mirrored =
        parse_site("[network]\nproxy = \"p:3128\"\n[registry.\"docker.io\"]\nmirror = [\"A.example:5000\", \"b\"]\n",
                   "berth.conf");
    CHECK(mirrored.registries.at("docker.io").mirrors == std::vector<std::string>{"a.example:5000", "b"});
    CHECK(mirrored.network.proxy == "p:3128");
    CHECK(parse_site("", "x").store.path == "/var/lib/berth/%U");
}

TEST_CASE("site file: mistakes name file, line and key", "[config]") {
    CHECK(refusal("[store]\npth = \"x\"\n").starts_with("berth.conf:2:1: unknown key store.pth"));
    CHECK(refusal("[store]\npath = 5\n").starts_with("berth.conf:2:"));
    CHECK(refusal("[store]\npull = \"sometimes\"\n").find("newer, missing") != std::string::npos);
    CHECK(refusal("[limits]\ntmpfs_size = \"lots\"\n").find("is no size") != std::string::npos);
    CHECK(refusal("[limits]\nstore_age = -1\n").find("between 0 and 36500") != std::string::npos);
    CHECK(refusal("[store]\ncompression = \"xz\"\n").ends_with("store.compression must be zstd, lz4, gzip or none"));
    CHECK(refusal("[store]\ncompression_level = 23\n").find("between 0 and 22") != std::string::npos);
    CHECK(refusal("[network]\nconnections = 0\n").find("between 1 and 64") != std::string::npos);
    CHECK(refusal("[limits]\npull_memory = \"1M\"\n").find("at least \"48M\"") != std::string::npos);
    CHECK(refusal("[events]\nlog = \"events.jsonl\"\n")
              .ends_with("events.log must be an absolute path, \"syslog\" or \"\""));
    CHECK(refusal("[events]\ncounters = \"syslog\"\n")
              .ends_with("events.counters must be an absolute path of a folder or \"\""));
    CHECK(parse_site("[events]\nlog = \"%h/e.jsonl\"\n", "x").events.log == "%h/e.jsonl");
    CHECK(parse_site("[events]\nlog = \"/l/%u.%U.%n.%%j\"\n", "x").events.log == "/l/%u.%U.%n.%%j");
    for (const char* sign : {"%j", "%s", "%x"})
        CHECK(refusal(cat("[events]\nlog = \"/l/", sign, ".jsonl\"\n"))
                  .ends_with(cat("events.log: \"", sign, "\" stands for nothing; there are %u, %U, %h, %n and %%")));
    CHECK(refusal("[events]\nlog = \"/l/a%\"\n").find("\"%\" stands for nothing") != std::string::npos);
    CHECK(refusal("[defaults]\nunshare = \"ipc net\"\n")
              .ends_with("defaults.unshare: \"net\" is none of the namespaces ipc, pid, uts and cgroup"));
    CHECK(parse_site("[defaults]\nunshare = \"ipc, pid\"\n", "x").defaults.unshare ==
          std::vector<std::string>{"ipc", "pid"});
    CHECK(refusal("stray = 1\n").find("outside of a section") != std::string::npos);
    CHECK(refusal("[store\n").starts_with("berth.conf:1:"));
    CHECK(refusal("[registry.\"x\"]\nmirror = \"y\"\n").find("a list of hosts") != std::string::npos);
    CHECK(refusal("[registry.\"x\"]\nmirror = [\"https://y/z\"]\n").find("is no HOST[:PORT]") != std::string::npos);
    CHECK(refusal("[registry.\"x\"]\nproxy = 1\n").find("unknown key") != std::string::npos);
}

TEST_CASE("site file: an unknown key says what may be meant, and where all are", "[config][meant]") {
    CHECK(refusal("[store]\npul = \"missing\"\n") ==
          "berth.conf:2:1: unknown key store.pul (berth.conf(5) has all); did you mean store.pull?");
    CHECK(refusal("[stroe]\npath = \"/x\"\n").ends_with("unknown key stroe.path (berth.conf(5) has all); "
                                                      "did you mean store.path?"));
    CHECK(refusal("[mount]\nsomething_else = 1\n")
              .ends_with("unknown key mount.something_else (berth.conf(5) has all)"));
    CHECK(refusal("[registry.\"x\"]\nmiror = [\"y\"]\n").ends_with("; did you mean mirror?"));
}

TEST_CASE("variables: what begins with BERTH_ and means nothing is told, with what may be meant", "[config][meant]") {
    using Lines = std::vector<std::string>;
    Lines environment = {"BERTH_CONTAINER_IMAG=debian", "BERTH_STORE_PUL=never", "BERTH_STROE_PATH=/x",
                         "BERTH_CONTANER_MOUNTS=/x", "BERTH_NONE=debug", "XBERTH_Y=1", "BERTH_DEVICE=a", "BERTH_=1",
                         "BERTH_EMPTY=", "BERTH_STORE_EMPTY="};
    CHECK(unknown_variables(environment) ==
          Lines{"BERTH_CONTAINER_IMAG (did you mean BERTH_CONTAINER_IMAGE?)",
                "BERTH_STROE_PATH (did you mean BERTH_STORE_PATH?)",
                "BERTH_CONTANER_MOUNTS (did you mean BERTH_CONTAINER_MOUNTS?)", "BERTH_NONE",
                "BERTH_DEVICE (did you mean BERTH_DEVICES?)", "BERTH_"});
    CHECK(unknown_key_variables(environment) == Lines{"BERTH_STORE_PUL (did you mean BERTH_STORE_PULL?)"});
    CHECK(unknown_variables_note({"A", "B (did you mean C?)"}) ==
          "no variable of Berth's, and without effect: A, B (did you mean C?); see ENVIRONMENT in spank_berth(8)");
    CHECK(unknown_variables_note({}).empty());
}

TEST_CASE("variables: those of each option and key, and what Berth itself sets, are known", "[config][meant]") {
    std::vector<std::string> environment = {"BERTH_DEVICES=a/b=c", "BERTH_PLAN=1", "BERTH_CONTAINER_DIGEST=sha256:1",
                                            "BERTH_MUST_RUN=1", "BERTH_TEST_SLOWNESS=3"};
    for (const SrunOption& option : srun_options())
        if (!std::string_view(option.name).starts_with("no-"))
            environment.push_back(variable_name("BERTH_", option.name) + "=1");
    std::set<std::string> sections;
    for (const ShownKey& key : shown_site(Site())) {
        environment.push_back(variable_of(key.key) + "=1");
        sections.insert(key.key.substr(0, key.key.find('.')));
    }
    CHECK(unknown_variables(environment).empty());
    CHECK(unknown_key_variables(environment).empty());
    CHECK(sections == std::set<std::string>(site_sections().begin(), site_sections().end()));
}

TEST_CASE("variables: a mistake in one's value names it without a line that it has not", "[config][meant]") {
    Site site;
    CHECK_THROWS_WITH(apply_environment(site, {"BERTH_STORE_PULL=sometimes"}),
                      "BERTH_STORE_PULL: store.pull must be newer, missing, always or never");
}

TEST_CASE("site file: all mistakes are told at once, in the order of their lines", "[config]") {
    auto places = [](const std::string& text) {
        std::string out;
        for (const std::string& mistake : site_mistakes(text, "f")) out += mistake.substr(0, mistake.find(": ")) + " ";
        return out;
    };
    CHECK(places("").empty());
    CHECK(places("[store]\npull = \"missing\"\n").empty());
    CHECK(places("[store]\npull = \"often\"\nage = 1\n[network]\nconnections = 0\n[a]\nb = 1\n") ==
          "f:2:8 f:3:1 f:5:15 f:7:1 ");
    CHECK(places("[registry.\"z\"]\nca = 1\nproxy = 1\n[registry.\"a\"]\nmirror = [\"x/y\"]\n[registry]\nb = 1\n") ==
          "f:2:6 f:3:1 f:5:11 f:7:5 ");
    // A line that is no TOML is left out of the rest; a section's name with its keys.
    CHECK(places("[store]\npath = \npull = \"often\"\npath = \"/x\"\n[limits\nx = 1\n[mount]\nthreads = -1\n") ==
          "f:2:8 f:3:8 f:5:8 f:8:11 ");
    CHECK(places("[store]\npull = \"missing\"\npull = \"often\"\n[=]\nx = 1\n[mount]\nx = 1\n") == "f:3:8 f:4 f:7:1 ");
    CHECK(places("\xC3\xA9 = 1\n[mount]\nx = \"\xC3\xA9\"\n") == "f:1:1 f:3:1 ");
    // Behind what is left open nobody can tell what was meant.
    CHECK(split(places("[registry.\"a\"]\nmirror = [\"x\",\n[store]\npath = 1\n"), ' ').size() == 2);
    CHECK(split(places("[store]\npath = \"\"\"x\n[limits]\na = b\n"), ' ').size() == 2);
    std::string many = "[store]\n";
    for (int line = 0; line < 100; ++line) many += "a = \n";
    CHECK(site_mistakes(many, "f").size() == 20);
    CHECK(refusal("[store]\nz = 1\na = 2\n").starts_with("berth.conf:2:1: "));
}

// toml++ 3.3 ends the program at these, or does worse.
TEST_CASE("site file: what the library cannot bear is a mistake like any other", "[config]") {
    CHECK(refusal("[store]\n[=]\n").starts_with("berth.conf:2: this is no TOML"));
    for (const char* broken : {"[=", " [ #x", "[[=", "[.a]", "a=[}", "a={]"})
        CHECK(refusal(broken).starts_with("berth.conf:1:"));
    CHECK(refusal("[store]\npath = \"\xC3\xA9\" # \xC3\xA9\n\xC3\xA9 = 1\n") ==
          "berth.conf:3:1: a character that may stand in quotes only");
    for (const std::string& text : {std::string("[\0a]", 4), std::string("a = \x7f"), std::string("a.\xC3\xA9 = 1")})
        CHECK(refusal(text).starts_with("berth.conf:1:"));
    for (const char* open : {"a = \"", "a = '", "a = \"\"\"\n[=", "a = '''\n", "a = \"\\"})
        CHECK(refusal(open).starts_with("berth.conf:"));
    CHECK(parse_site("[store]\npath = \"[=\\\"\\u00e9\"\n[network]\nproxy = '''\n[=\n'''\nno_proxy = \"\"\n", "x")
              .store.path == "[=\"\xC3\xA9");
}

TEST_CASE("site file: variables override keys", "[config]") {
    Site site;
    apply_environment(site,
                      {"BERTH_STORE_PATH=/s", "BERTH_DEFAULTS_WRITABLE=no", "BERTH_MOUNT_THREADS=3",
                       "BERTH_LIMITS_TMPFS_SIZE=1M", "BERTH_STORE_PATHS=x", "OTHER=1", "BERTH_STORE_COMPRESSION=none",
                       "BERTH_NETWORK_CONNECTIONS=8", "BERTH_LIMITS_PULL_MEMORY=256M"});
    CHECK(site.store.compression == LayerCodec::none);
    CHECK(site.network.connections == 8);
    CHECK(site.limits.pull_memory == 256ULL << 20);
    CHECK(site.store.path == "/s");
    CHECK_FALSE(site.defaults.writable);
    CHECK(site.mount.threads == 3);
    CHECK(site.limits.tmpfs_size == 1 << 20);
    for (const char* bad : {"BERTH_DEFAULTS_WRITABLE=maybe", "BERTH_MOUNT_THREADS=x", "BERTH_MOUNT_THREADS=999",
                            "BERTH_STORE_PULL=often"})
        CHECK_THROWS_AS(apply_environment(site, {bad}), Error);
}

TEST_CASE("site file: networks and ports at which nodes share are checked", "[config]") {
    Site site = parse_site("[share]\nenabled = true\nnetworks = \"10.0.0.0/8, fd00::/8\"\nports = \"4000-4100\"\n"
                           "rate = \"500M\"\n", "berth.conf");
    CHECK(site.share.enabled);
    CHECK(site.share.networks == std::vector<std::string>{"10.0.0.0/8", "fd00::/8"});
    CHECK(site.share.ports == "4000-4100");
    CHECK(site.share.rate == 500ULL << 20);
    CHECK_THAT(refusal("[share]\nnetworks = \"10.0.0.0/8 eth0\"\n"),
               Catch::StartsWith("berth.conf:2:12: share.networks: \"eth0\": it is no network such as 10.0.0.0/8 or"));
    CHECK_THAT(refusal("[share]\nports = \"9-1\"\n"),
               Catch::StartsWith("berth.conf:2:9: share.ports: \"9-1\": it is no range of ports such as 40000-40999"));
    CHECK_FALSE(Site().share.enabled);
}

TEST_CASE("site file: sizes", "[config]") {
    CHECK(parse_size("512", "x") == 512);
    CHECK(parse_size("3K", "x") == 3072);
    CHECK(parse_size("4G", "x") == 4ULL << 30);
    for (const char* bad : {"", "K", "-1", "1.5G", "99999999999999T", "1GB"})
        CHECK_THROWS_AS(parse_size(bad, "x"), Error);
}

TEST_CASE("site file: the store's path", "[config]") {
    Site site;
    Caller caller;
    caller.uid = 7;
    caller.user = "al";
    caller.home = "/h/al";
    CHECK(path_for(site.store.path, caller) == "/var/lib/berth/7");
    site.store.path = "%h/.cache/%u-%U%%";
    CHECK(path_for(site.store.path, caller) == "/h/al/.cache/al-7%");
}

TEST_CASE("site file: a path of a container has the job, step and node, and none outside of a job", "[config]") {
    Caller caller;
    caller.uid = 7;
    caller.user = "al";
    Job job;
    job.id = "12.batch";
    job.node = "n3";
    CHECK(path_for("/s/%j/%s/%n/%u-%U%%x%q", caller, job) == "/s/12/batch/n3/al-7%x%q");
    CHECK(path_for("/s/%u", caller, Job()) == "/s/al");
    for (const char* path : {"/s/%j", "/s/%s", "/s/%n"}) CHECK_FALSE(path_for(path, caller, Job()));
    // What a container has is not what the store's path may have.
    CHECK(path_for("/s/%j", caller) == "/s/%j");
}

TEST_CASE("site file: [site] has lists, which plugstack.conf may set and a user may not", "[config]") {
    Site site = parse_site(
        "[site]\nmounts = [\"/lustre:/lustre:ro\", \"/s/%j:/scratch\"]\nenvironment = [\"A=1,2\", \"B=x y\"]\n"
        "environment_defaults = [\"NVIDIA_VISIBLE_DEVICES=all\"]\nenroot_config = \"/etc/enroot\"\n",
        "berth.conf");
    CHECK(site.site.mounts == std::vector<std::string>{"/lustre:/lustre:ro", "/s/%j:/scratch"});
    CHECK(site.site.environment == std::vector<std::string>{"A=1,2", "B=x y"});
    std::map<std::string, std::string> shown;
    for (const ShownKey& key : shown_site(site)) shown[key.key] = key.value;
    CHECK(shown["site.environment"] == "[\"A=1,2\", \"B=x y\"]");
    CHECK(shown["site.mounts"] == "[\"/lustre:/lustre:ro\", \"/s/%j:/scratch\"]");
    apply_environment(site, {"BERTH_SITE_ENVIRONMENT=A=1\nB=2"}, Authority::site);
    CHECK(site.site.environment == std::vector<std::string>{"A=1", "B=2"});
    for (const char* variable : {"BERTH_SITE_MOUNTS=/x:/y", "BERTH_SITE_ENROOT_CONFIG=/home/alice"})
        CHECK_THROWS_WITH(apply_environment(site, {variable}), Catch::Contains("by the site's file only"));
    CHECK(refusal("[site]\nmounts = [\"./x:/y\"]\n") ==
          "berth.conf:2:10: site.mounts: \"./x:/y\": the source must be an absolute path");
    CHECK(refusal("[site]\nmounts = [\"/x:/y:odd\"]\n").find("unknown flag 'odd'") != std::string::npos);
    CHECK(refusal("[site]\nmounts = [5]\n").find("a list of mounts") != std::string::npos);
    CHECK(refusal("[site]\nenvironment = [\"=x\"]\n").find("NAME=VALUE") != std::string::npos);
    CHECK(refusal("[site]\nenroot_config = \"enroot\"\n").find("an absolute path") != std::string::npos);
}

TEST_CASE("site file: [mpi] lists files of the node, and a job says whether they are used", "[config][mpi]") {
    auto mistake = [](const std::string& text) {
        try {
            parse_site(text, "f");
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("none");
    };
    Site site = parse_site("[mpi]\nlibraries = [\"/opt/my mpi/libmpi.so.12\", \"/opt/b/lib*.so.1\"]\n", "f");
    CHECK_FALSE(site.mpi.replace);
    CHECK(site.mpi.libraries == std::vector<std::string>{"/opt/my mpi/libmpi.so.12", "/opt/b/lib*.so.1"});
    apply_environment(site, {"BERTH_MPI_REPLACE=yes", "BERTH_MPI_CHECK=major"});
    CHECK((site.mpi.replace && site.mpi.check == MpiCheck::major && site.set_by_user("mpi.replace")));
    CHECK_THROWS_WITH(apply_environment(site, {"BERTH_MPI_MOUNTS=/x"}),
                      Catch::StartsWith("BERTH_MPI_MOUNTS: mpi.mounts is locked unless"));
    CHECK_THAT(mistake("[mpi]\nlibraries = [\"lib/libmpi.so.12\"]"),
               Catch::StartsWith("f:2:13: mpi.libraries: \"lib/libmpi.so.12\": it is no absolute path"));
    CHECK_THAT(mistake("[mpi]\nmounts = [\"/a/../proc\"]"), Catch::Contains("has . or .. in it"));
    CHECK_THAT(mistake("[mpi]\nmounts = [\"/proc\"]"), Catch::Contains("a mount over /proc"));
    CHECK_THAT(mistake("[mpi]\ncheck = \"minor\""), Catch::Contains("mpi.check must be interface or major"));
}

TEST_CASE("site file: mount.upper is memory or a folder; what decides over rights is the site's to say", "[config]") {
    CHECK(parse_site("", "x").mount.upper == "memory");
    CHECK(parse_site("[mount]\nupper = \"/raid/%u/%j\"\n", "x").mount.upper == "/raid/%u/%j");
    for (const char* bad : {"raid", "", "disk"})
        CHECK_FALSE(refusal(cat("[mount]\nupper = \"", bad, "\"\n")).empty());
    Site site;
    for (const char* variable : {"BERTH_SECURITY_ROOT_CAPABILITIES=mount", "BERTH_REGISTRY_AUTH_COMMANDS=true"})
        CHECK_THROWS_WITH(apply_environment(site, {variable}), Catch::Contains("policy.unlocked"));
    Site logins = parse_site(
        "[registry]\nauth_path = \"~/.enroot\"\nauth_commands = true\n[registry.\"r:5\"]\nplain_http = true\n",
        "x");
    CHECK((logins.logins.auth_path == "~/.enroot" && logins.registries.at("r:5").plain_http));
    CHECK_FALSE(refusal("[registry]\nauth_pth = \"x\"\n").empty());
}

TEST_CASE("site file: stores that the site offers are absolute paths, which users cannot change", "[config][shared]") {
    Site site = parse_site("[store]\nshared = [\"/srv/a\", \"/srv/b\"]\nshared_owner = \"993\"\n", "x");
    CHECK(site.store.shared == std::vector<std::string>{"/srv/a", "/srv/b"});
    CHECK(site.store.shared_owner == "993");
    CHECK(parse_site("", "x").store.shared.empty());
    for (const char* variable : {"BERTH_STORE_SHARED=/tmp/mine", "BERTH_STORE_SHARED_OWNER=me"})
        CHECK_THROWS_WITH(apply_environment(site, {variable}), Catch::Contains("policy.unlocked"));
    CHECK(refusal("[store]\nshared = [\"srv\"]\n") ==
          "berth.conf:2:10: store.shared: \"srv\": it is no absolute path");
    CHECK(refusal("[store]\nshared = [\"/srv/../a/\"]\n").find("write it as /a") != std::string::npos);
    CHECK(refusal("[store]\nshared = [\"/srv/a\\nb\"]\n").find("control characters") != std::string::npos);
    CHECK(refusal("[store]\nshared = [5]\n").find("a list of folders") != std::string::npos);
}

TEST_CASE("site file: conf/berth.conf holds every key as a commented default", "[config]") {
    // The file as shipped changes nothing, and with the comments taken off its keys it parses to the defaults as well.
    std::string shipped = sys::read_file("conf/berth.conf"), uncommented;
    CHECK_NOTHROW(parse_site(shipped, "conf/berth.conf"));
    for (const std::string& line : split(shipped, '\n'))
        uncommented +=
            (line.size() > 1 && line[0] == '#' && line[1] != ' ' && line[1] != '#' ? line.substr(1) : line) + "\n";
    Site site;
    REQUIRE_NOTHROW(site = parse_site(uncommented, "conf/berth.conf"));
    std::map<std::string, std::string> of_file;
    for (const ShownKey& shown : shown_site(site)) of_file[shown.key] = shown.value;
    for (const ShownKey& shown : shown_site(Site())) {
        INFO(shown.key);
        CHECK(of_file[shown.key] == shown.value);
        CHECK(shipped.find(cat("\n#", shown.key.substr(shown.key.find('.') + 1), " = ")) != std::string::npos);
    }
    for (const char* key : {"plain_http =", "ca =", "mirror ="}) CHECK(shipped.find(key) != std::string::npos);
}

TEST_CASE("site file: every value can be shown with where it comes from", "[config]") {
    Site site = parse_site(
        "[store]\npull = \"missing\"\n[limits]\ntmpfs_size = \"2048K\"\n[registry.\"r:5\"]\nmirror = [\"a\", \"b\"]\n",
        "/etc/berth/berth.conf");
    apply_environment(site, {"BERTH_STORE_PATH=/s \"x\"", "BERTH_MOUNT_THREADS=3", "BERTH_STORE_PULL=missing"});
    apply_environment(site, {"BERTH_DEFAULTS_ENTRYPOINT=true"}, Authority::site);
    std::map<std::string, std::string> shown;
    for (const ShownKey& key : shown_site(site)) shown[key.key] = key.value + " " + key.origin.text();
    CHECK(shown["store.path"] == "\"/s \\\"x\\\"\" BERTH_STORE_PATH");
    CHECK(shown["store.pull"] == "\"missing\" /etc/berth/berth.conf:2");
    CHECK(shown["limits.tmpfs_size"] == "\"2M\" /etc/berth/berth.conf:4");
    CHECK(shown["limits.store_size"] == "\"0\" default");
    CHECK(shown["mount.threads"] == "3 BERTH_MOUNT_THREADS");
    CHECK(shown["defaults.entrypoint"] == "true plugstack.conf");
    CHECK(shown["devices.cdi_folders"] == "\"/etc/cdi /var/run/cdi\" default");
    CHECK(shown["registry.\"r:5\".mirror"] == "[\"a\", \"b\"] /etc/berth/berth.conf:6");
    CHECK(shown["registry.\"r:5\".plain_http"] == "false default");
}

TEST_CASE("site file: a mistake is shown with its line and a caret", "[config]") {
    std::string text = "[store]\npull = \"often\"\n[a\n";
    CHECK(shown_mistake("f:2:8: wrong", text, "f") == "f:2:8: wrong\n  pull = \"often\"\n         ^");
    CHECK(shown_mistake("f:3: no TOML", text, "f") == "f:3: no TOML\n  [a\n  ^");
    for (const char* other : {"g:1:1: x", "f: x", "f:99:1: x", "f:"}) CHECK(shown_mistake(other, text, "f") == other);
}

TEST_CASE("site file: a key that was withdrawn says what to do", "[config]") {
    std::string said = refusal("[share]\nenabled = true\nrendezvous = \"%h/.meet\"\n");
    CHECK(said.starts_with("berth.conf:3:1: share.rendezvous was withdrawn"));
    CHECK(said.find("delete the line") != std::string::npos);
    // It has no meaning any more, and so says a variable of that name nothing.
    Site site = parse_site("[share]\nenabled = true\n", "berth.conf");
    CHECK_NOTHROW(apply_environment(site, {"BERTH_SHARE_RENDEZVOUS=/tmp/x"}));
}
