// How lines of Enroot's files are read, and what becomes of one setting at a time.
#include <set>

#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/migrate/lines.hh"
#include "runtime/migrate/migrate.hh"
#include "runtime/migrate/value.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::migrate;
using Catch::Contains;

namespace {

/// Of one enroot.conf.
Migration of_conf(const std::string& text, const Reader& reader = site_reader) {
    Configuration from;
    from.settings = {{"enroot.conf", text}};
    return migrated(from, reader);
}

/// The finding for the line `line` of the file `file`.
Finding finding(const Migration& migration, const std::string& file, size_t line) {
    for (const Finding& one : migration.findings)
        if (one.place.file == file && one.place.line == line) return one;
    FAIL("no finding for " << file << ":" << line);
    return {};
}

Finding of_line(const std::string& text) { return finding(of_conf(text), "enroot.conf", 1); }

Finding of_fstab(const std::string& text, const Reader& reader = site_reader) {
    Configuration from;
    from.site.mounts = {{"a.fstab", text}};
    return finding(migrated(from, reader), "a.fstab", 1);
}

Finding of_environ(const std::string& text, const Reader& reader = site_reader) {
    Configuration from;
    from.site.environ = {{"a.env", text}};
    return finding(migrated(from, reader), "a.env", 1);
}

/// A berth.conf that has `more` keys, which take everything.
Reader with_keys(const std::set<std::string>& more) {
    return [more](const std::string& key, const std::string& value) {
        return more.contains(key) ? Answer::taken : site_reader(key, value);
    };
}

/// One that lacks `key`.
Reader without_key(const std::string& missing) {
    return [missing](const std::string& key, const std::string& value) {
        return key == missing ? Answer::no_key : site_reader(key, value);
    };
}

plan::Site site_of(const Migration& migration) { return plan::parse_site(migration.conf, "berth.conf"); }

}  // namespace

TEST_CASE("migrate: lines of enroot.conf as Enroot reads them", "[migrate]") {
    using S = Setting;
    CHECK(parse_enroot_conf("A b c\n# no\n\n \tENROOT_X=1\nENROOT_Y = 2 \r\nENROOT_Z\n- x\n") ==
          std::vector<S>{{1, "A", "b c"}, {4, "ENROOT_X", "1"}, {5, "ENROOT_Y", "2"}, {6, "ENROOT_Z", ""},
                         {7, "", "- x"}});
    CHECK(parse_environ(" A=b c\nB=\"x y\"\nC='z'\nD=\"\n2E=3\nnothing\n") ==
          std::vector<S>{{1, "A", "b c"}, {2, "B", "x y"}, {3, "C", "z"}, {4, "D", "\""}, {5, "", "2E=3"},
                         {6, "", "nothing"}});
}

TEST_CASE("migrate: lines of mounts.d with and without type and options", "[migrate]") {
    auto lines = parse_fstab(
        "/a /b none x-create=dir,bind 0 -1\n/proc /proc rbind\ntmpfs /tmp\n/a\\040b /c ext4 ro\nx\n");
    REQUIRE(lines.size() == 5);
    CHECK(lines[0] == FstabLine{1, "/a /b none x-create=dir,bind 0 -1", "/a", "/b", "none", {"x-create=dir", "bind"}});
    CHECK(lines[1] == FstabLine{2, "/proc /proc rbind", "/proc", "/proc", "", {"rbind"}});
    CHECK(lines[2] == FstabLine{3, "tmpfs /tmp", "tmpfs", "/tmp", "", {}});
    CHECK(lines[3] == FstabLine{4, "/a\\040b /c ext4 ro", "/a b", "/c", "ext4", {"ro"}});
    CHECK(lines[4] == FstabLine{5, "x", "x", "", "", {}});
}

TEST_CASE("migrate: lines of plugstack.conf and of .credentials", "[migrate]") {
    Plugstack stack =
        parse_plugstack("include a.d/*\nrequired /x/spank_pyxis.so a=b c # d=e\n# required y.so\noptional\n");
    CHECK(stack.includes == std::vector<std::string>{"a.d/*"});
    CHECK(stack.plugins == std::vector<Plugstack::Plugin>{{2, "/x/spank_pyxis.so", {"a=b", "c"}}});
    CHECK(parse_credentials("machine a login u password p\nmachine b login $oauthtoken password $(cmd x)\nlogin c\n") ==
          std::vector<Login>{{1, "a", false}, {2, "b", true}});
    CHECK(parse_credentials("machine a login u password $A_1\nmachine b login u password ${B}\n"
                            "machine c login u password ${C:-x}\nmachine d login u password $D x\n") ==
          std::vector<Login>{{1, "a", false}, {2, "b", false}, {3, "c", true}, {4, "d", true}});
}

TEST_CASE("migrate: values of enroot.conf without a shell", "[migrate]") {
    CHECK(parse_value(R"(a  "b  c"'$d' \$e # f)").text() == "a b  c$d $e");
    CHECK(parse_value("# nothing").text() == "");
    CHECK(parse_value("a#b").text() == "a#b");
    for (const char* uid : {"$(id -u)", "${UID}", "$UID", "`id -u`", "$( id  -u )", "\"${EUID}\""})
        CHECK(parse_value(cat("/x/u-", uid, "/y")).path(Signs::of_user) == "/x/u-%U/y");
    CHECK(parse_value("~/x").path(Signs::of_user) == "%h/x");
    CHECK(parse_value("${HOME:-/root}/100%").path(Signs::of_user) == "%h/100%%");
    CHECK(parse_value("${XDG_CONFIG_HOME}/enroot").path(Signs::of_user) == "%h/.config/enroot");
    CHECK(parse_value("${TMPDIR:-/tmp}/x").path(Signs::of_user) == "/tmp/x");
    CHECK(parse_value("/x/$(id -g)").path(Signs::of_user) == std::nullopt);
    CHECK(parse_value("/x/$(id -g)").expression_without_sign(Signs::of_user) == "$(id -g)");
    CHECK(parse_value("/x/$SLURM_JOB_ID/${SLURMD_NODENAME}").path(Signs::of_user) == std::nullopt);
    CHECK(parse_value("/x/$SLURM_JOB_ID/${SLURMD_NODENAME}").path(Signs::of_job) == "/x/%j/%n");
    CHECK(parse_value("/x/$(id -u)").text() == std::nullopt);
    CHECK(parse_value("$(unfinished").text() == "$(unfinished");
    CHECK(parse_plain_value("a${B}$(c)").pieces ==
          std::vector<Value::Piece>{{"a", false}, {"$B", true}, {"$(c)", false}});
    for (const char* no : {"", "n", "no", "No", "NO", "f", "False"}) CHECK(is_no(no));
    for (const char* yes : {"y", "yes", "0", "off", "nO"}) CHECK_FALSE(is_no(yes));
}

TEST_CASE("migrate: flags, numbers and words become keys that the reader takes", "[migrate]") {
    plan::Site site = site_of(of_conf(
        "ENROOT_ROOTFS_WRITABLE yes\nENROOT_REMAP_ROOT=1\nENROOT_MOUNT_HOME \"y\"\nENROOT_MAX_CONNECTIONS 8\n"
        "ENROOT_UNSHARE_IPC yes\nENROOT_SQUASH_OPTIONS -comp lz4\nhttps_proxy http://proxy.example:3128/\n"
        "no_proxy .example,10.0.0.1\nENROOT_DATA_PATH /local/%x/${USER}\n"));
    CHECK(site.defaults.writable);
    CHECK(site.defaults.remap_root);
    CHECK(site.defaults.mount_home);
    CHECK(site.defaults.unshare == std::vector<std::string>{"ipc"});
    CHECK(site.network.connections == 8);
    CHECK(site.network.proxy == "http://proxy.example:3128");
    CHECK(site.network.no_proxy == ".example,10.0.0.1");
    CHECK(site.store.compression == plan::LayerCodec::lz4);
    CHECK(site.store.path == "/local/%%x/%u/berth-images");
    CHECK(site.data.path == "/local/%%x/%u/berth-containers");
    // Enroot's default, where nobody has written it.
    CHECK_FALSE(site_of(of_conf("")).defaults.writable);
    CHECK_FALSE(site_of(of_conf("ENROOT_ROOTFS_WRITABLE no\n")).defaults.writable);
}

TEST_CASE("migrate: what changes says how", "[migrate]") {
    struct Case {
        const char *line, *became, *why;
    };
    for (const Case& one : {
             Case{"ENROOT_MAX_CONNECTIONS 0", "network.connections = 64", "64 connections are the most"},
             {"ENROOT_SQUASH_OPTIONS -comp xz", "", "there is no xz"},
             {"ENROOT_CACHE_PATH /x/$(id -g)", "", "the store keeps each layer once"},
             {"ENROOT_UNSHARE_PID y", "defaults.unshare = \"pid\"", "only for berth run"},
             {"ENROOT_NATIVE_OVERLAYFS no", "", "always native"},
             {"ENROOT_DATA_PATH /shared", "store.path = \"/shared/%U/berth-images\"", "nothing that Enroot left"},
         }) {
        Finding found = of_line(one.line);
        INFO(found.text());
        CHECK(found.fate == Fate::changed);
        CHECK_THAT(found.became, Catch::StartsWith(one.became));
        CHECK_THAT(found.why, Contains(one.why));
    }
}

TEST_CASE("migrate: what has no place is told with what to do, and never dropped", "[migrate]") {
    struct Case {
        const char *line, *why;
    };
    for (const Case& one : {
             Case{"ENROOT_NEW_THING 5", "Enroot 4.1.2 has no such setting"},
             {"PATH /x", "Enroot does not read this line"},
             {"- rubbish", "Enroot does not read this line"},
             {"ENROOT_ALLOW_SUPERUSER yes", "no process in a container has privileges"},
             {"ENROOT_ALLOW_HTTP y", "plain_http = true"},
             {"SSL_CERT_FILE /etc/ssl/site.pem", "ca = \"FILE\""},
             {"https_proxy socks5://x:1080", "only HTTP proxies"},
             {"ENROOT_MAX_CONNECTIONS many", "write a number"},
             {"ENROOT_MOUNT_HOME $(test -d /x && echo y)", "no place for $(test -d /x && echo y)"},
             {"ENROOT_DATA_PATH /x/$(id -g)", "data.path has no sign for $(id -g); write another path to it"},
             {"ENROOT_ROOTFS_WRITABLE \"\x01$(\"", "no place"},
         }) {
        Finding found = of_line(one.line);
        INFO(found.text());
        if (std::string(one.line).find('\x01') != std::string::npos) {
            CHECK(found.text().find('\x01') == std::string::npos);
            continue;
        }
        CHECK(found.fate == Fate::unplaced);
        CHECK(found.became.empty());
        CHECK_THAT(found.why, Contains(one.why));
    }
    // The first one counts, and one key has one value.
    Migration twice = of_conf("ENROOT_MOUNT_HOME y\nENROOT_MOUNT_HOME n\nhttps_proxy a:1\nhttp_proxy b:2\n");
    CHECK(site_of(twice).defaults.mount_home);
    CHECK_THAT(finding(twice, "enroot.conf", 2).text(),
               Contains("kept") && Contains("without effect, as in Enroot: enroot.conf:1 counts"));
    CHECK_THAT(finding(twice, "enroot.conf", 4).text(),
               Contains("no place") && Contains("network.proxy has one value, and that of enroot.conf:3 is written"));
}

TEST_CASE("migrate: a key that berth.conf does not have yet is written as soon as it has it", "[migrate]") {
    struct Case {
        const char *key, *line, *shown;
    };
    for (const Case& one : {
             Case{"site.environment", "NVIDIA_DRIVER_CAPABILITIES all",
                  "site.environment = [\"NVIDIA_DRIVER_CAPABILITIES=all\"]"},
             {"registry.auth_path", "ENROOT_CONFIG_PATH ${HOME}/.enroot", "registry.auth_path = \"%h/.enroot\""},
             {"devices.restrict", "ENROOT_RESTRICT_DEV no", "devices.restrict = false"},
             {"mount.upper", "ENROOT_DATA_PATH /scratch/$SLURM_JOB_ID/", "mount.upper = \"/scratch/%j\""},
             {"defaults.unshare", "ENROOT_UNSHARE_NET yes", "defaults.unshare = \"net\""},
         }) {
        INFO(one.line);
        Finding with = finding(of_conf(one.line, with_keys({one.key})), "enroot.conf", 1);
        CHECK(with.fate == (one.key == std::string("mount.upper") ? Fate::unplaced : Fate::kept));
        CHECK(with.became == one.shown);
        Finding without = finding(of_conf(one.line, without_key(one.key)), "enroot.conf", 1);
        CHECK(without.fate == Fate::unplaced);
        CHECK_FALSE(without.why.empty());
    }
    Finding mount = of_fstab("/a /b none x-create=dir,bind,ro 0 0", with_keys({"site.mounts"}));
    CHECK(mount.text() ==
          "kept      a.fstab:1: /a /b none x-create=dir,bind,ro 0 0 -> site.mounts = [\"/a:/b:x-create=dir+bind+ro\"]");
    CHECK(of_fstab("/a /b none bind", without_key("site.mounts")).fate == Fate::unplaced);
    Finding variable = of_environ("A=b \"c\"", with_keys({"site.environment"}));
    CHECK(variable.became == R"(site.environment = ["A=b \"c\""])");
    CHECK(of_environ("A=b", without_key("site.environment")).fate == Fate::unplaced);
}

TEST_CASE("migrate: keys for a hook of Enroot and for computed passwords", "[migrate]") {
    Configuration from;
    from.site.hooks = {{"10-shadow.sh", true}};
    from.users.emplace_back();
    from.users[0].credentials = {{".credentials", "machine a login b password $(c)\n"}};
    Migration with = migrated(from, with_keys({"defaults.home", "registry.auth_commands"}));
    CHECK(finding(with, "10-shadow.sh", 0).text() ==
          "kept      10-shadow.sh: hook of Enroot -> defaults.home = \"skel\"");
    CHECK(finding(with, ".credentials", 1).text() ==
          "kept      .credentials:1: login of a -> registry.auth_commands = true");
    CHECK(finding(migrated(from, without_key("defaults.home")), "10-shadow.sh", 0).fate == Fate::changed);
    CHECK(finding(migrated(from, without_key("registry.auth_commands")), ".credentials", 1).fate == Fate::unplaced);
}

TEST_CASE("migrate: a hook of a site's becomes a program, unless it looks at the container's files", "[migrate]") {
    auto hook = [](const std::string& text, bool executable = true, const std::string& name = "60-site.sh") {
        Configuration from;
        from.site.hooks = {{"hooks.d/" + name, executable, text}};
        return migrated(from, site_reader);
    };
    const std::string script = "#!/bin/bash\n# ENROOT_ROOTFS is empty\nmkdir -p \"${ENROOT_ROOTFS}/x\"\n"
                               "enroot-mount --root \"${ENROOT_ROOTFS}\" - <<< '/x /x'\n";
    Migration taken = hook(script);
    REQUIRE(taken.hooks.size() == 1);
    CHECK((taken.hooks[0].name == "60-site.enroot" && taken.hooks[0].text == script));
    CHECK(finding(taken, "hooks.d/60-site.sh", 0).fate == Fate::changed);
    Migration looks = hook(script + "  test -e \"${ENROOT_ROOTFS}/etc/debian_version\"\n");
    CHECK(looks.hooks.empty());
    Finding where = finding(looks, "hooks.d/60-site.sh", 5);
    CHECK(where.fate == Fate::unplaced);
    CHECK(where.place.what == "test -e \"${ENROOT_ROOTFS}/etc/debian_version\"");
    for (const char* other : {"", "\x7f""ELF", "echo without a first line"}) {
        CHECK(hook(other).hooks.empty());
        CHECK_THAT(finding(hook(other), "hooks.d/60-site.sh", 0).why, Contains("does not begin with #!"));
    }
    CHECK(hook(script, false).hooks.empty());
    CHECK(hook(script, false).findings.back().fate == Fate::kept);
    // Enroot's own, and users'.
    CHECK(hook(script, true, "98-nvidia.sh").hooks.empty());
    Configuration of_user;
    of_user.users.emplace_back().hooks = {{"u/hooks.d/60-site.sh", true, script}};
    Migration users = migrated(of_user, site_reader);
    CHECK(users.hooks.empty());
    CHECK_THAT(finding(users, "u/hooks.d/60-site.sh", 0).why, Contains("users have no hooks"));
}

TEST_CASE("migrate: variables and mounts that need no key, and those that none could hold", "[migrate]") {
    CHECK(of_environ("TERM=${TERM}").fate == Fate::kept);
    CHECK(of_environ("ENROOT_X=1").fate == Fate::kept);
    CHECK(of_environ("nonsense").fate == Fate::kept);
    CHECK(of_environ("A=${B}", with_keys({"site.environment"})).fate == Fate::unplaced);
    CHECK(of_environ("A=${HOME}/5%", with_keys({"site.environment"})).became == "site.environment = [\"A=%h/5%%\"]");
    CHECK(of_environ("MELLANOX_VISIBLE_DEVICES=all").became.starts_with("devices.rdma = "));
    CHECK(of_fstab("tmpfs /tmp tmpfs x-create=dir,mode=755").fate == Fate::kept);
    CHECK(of_fstab("tmpfs /tmp tmpfs size=50%").why == "limits.tmpfs_size has its size");
    Reader reader = with_keys({"site.mounts"});
    CHECK(of_fstab("/tmp /tmp none bind", reader).fate == Fate::kept);
    CHECK_THAT(of_fstab("/x/${PROJECT} /p none bind", reader).why, Contains("site.mounts has no sign for $PROJECT"));
    CHECK_THAT(of_fstab("nfs:/x /p nfs ro", reader).why, Contains("folders of the node and tmpfs only"));
    CHECK_THAT(of_fstab("/var/lib/lxcfs/proc/stat /proc/stat none bind", reader).why, Contains("below /proc"));
    CHECK_THAT(of_fstab("/a /b none bind,suid", reader).why, Contains("the flag 'suid' is not possible"));
    CHECK(of_fstab("/lonely", reader).fate == Fate::unplaced);
    CHECK(of_fstab("${HOME}/x /y none bind", reader).became == "site.mounts = [\"%h/x:/y:bind\"]");
    CHECK(of_fstab("none /usr/games none x-detach", reader).became == "site.mounts = [\"umount:/usr/games\"]");
}

TEST_CASE("migrate: every line of what it prints is printable, and every file it writes can be read", "[migrate]") {
    std::string odd = "ENROOT_DATA_PATH /a\"b\\c\x01\xff\nhttps_proxy \x1b[31m\nno_proxy \"#\ttab\"\n# x\nX\ny\n";
    Configuration from;
    from.settings = {{"enroot\n.conf", odd}};
    from.site.mounts = {{"a.fstab", "/a\\012b /c\\134 none bind\n"}};
    from.site.environ = {{"a.env", "A=\x01\nMELLANOX_VISIBLE_DEVICES=\"x\ny\"\n"}};
    from.site.hooks = {{"hooks.d/a\nb.sh", true, "#!/bin/sh\n"}, {"hooks.d/c\nd.sh", true}};
    Migration migration = migrated(from, site_reader);
    CHECK(plan::site_mistakes(migration.conf, "berth.conf").empty());
    for (const Finding& one : migration.findings) CHECK(printable(one.text(), 1 << 20) == one.text());
}
