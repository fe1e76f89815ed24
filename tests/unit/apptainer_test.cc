// What command lines and variables of Apptainer become: runtime/apptainer.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/apptainer/binds.hh"
#include "runtime/apptainer/commands.hh"
#include "runtime/apptainer/files.hh"
#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/inspect.hh"
#include "runtime/apptainer/instance_list.hh"
#include "runtime/apptainer/instead.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/apptainer/variables.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::apptainer;
using Catch::Contains;

namespace {

const Place at_work{"/home/ann/work", "/home/ann"};

/// "SRC>DST" or "tmpfs>DST" of each mount, ":ro" behind one that is only read.
std::vector<std::string> mounts_of(const Start& start) {
    std::vector<std::string> out;
    std::vector<plan::MountRequest> all = start.unasked;
    all.insert(all.end(), start.request.mounts.begin(), start.request.mounts.end());
    for (const plan::MountRequest& one : all)
        out.push_back(cat(one.kind == plan::MountRequest::Kind::tmpfs ? "tmpfs" : one.source, ">", one.target,
                          one.read_only ? ":ro" : ""));
    return out;
}

std::vector<std::string> shown(const std::vector<Bind>& binds) {
    std::vector<std::string> out;
    for (const Bind& one : binds)
        out.push_back(cat(one.mount.source, ">", one.mount.target, one.mount.read_only ? ":ro" : "",
                          one.nested ? "" : ":nonested"));
    return out;
}

Start start(const Given& given, const Place& place = at_work, const std::string& image = "x.sif") {
    return start_of(Action::exec, image, given, place);
}

std::string value(const Start& start, const std::string& name) {
    for (const std::string& text : start.set)
        if (text.starts_with(name + "=")) return text.substr(name.size() + 1);
    return "not set";
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("apptainer: what is mounted of the node without a flag", "[apptainer]") {
    Start plain = start({});
    CHECK(mounts_of(plain) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp"});
    CHECK(plain.request.mount_home == true);
    CHECK(plain.request.writable == false);
    CHECK(plain.request.remap_root == false);
    CHECK(plain.request.entrypoint == false);
    CHECK(plain.request.workdir == "/home/ann/work");
    CHECK_FALSE(plain.workdir_asked);
    CHECK(plain.request.unshare == plan::OwnNamespaces{});
    CHECK(plain.home == "/home/ann");
    // A working directory elsewhere is mounted, unless the container has one of its own there.
    CHECK(mounts_of(start({}, {"/data/a", "/home/ann"})) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp", "/data/a>/data/a"});
    CHECK(mounts_of(start({}, {"/tmp/x", "/home/ann"})) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp"});
    CHECK(start({}, {"/usr", "/home/ann"}).request.workdir == "/usr");
    CHECK(mounts_of(start({}, {"/usr", "/home/ann"})) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp"});
    CHECK(start({}, {"/proc/1", "/home/ann"}).request.workdir == "/home/ann");
    CHECK(start({}, {"/", ""}).home == "/");
}

TEST_CASE("apptainer: --contain and its like mount less", "[apptainer]") {
    Start contained = start({{"contain", {""}}});
    CHECK(mounts_of(contained) == Texts{"tmpfs>/home/ann", "tmpfs>/var/tmp", "tmpfs>/tmp"});
    CHECK(contained.request.mount_home == false);
    CHECK(contained.request.workdir == "/home/ann");
    CHECK(contained.request.unshare == plan::OwnNamespaces{});
    Start all = start({{"containall", {""}}});
    CHECK(mounts_of(all) == mounts_of(contained));
    CHECK(all.request.unshare == plan::OwnNamespaces{.ipc = true, .pid = true});
    CHECK(value(all, "LANG") == "C");
    CHECK(start({{"containall", {""}}, {"no-pid", {""}}}).request.unshare == plan::OwnNamespaces{.ipc = true});
    Start compat = start({{"compat", {""}}});
    CHECK(compat.request.writable == true);
    CHECK(compat.plain_umask);
    Start folders = start({{"contain", {""}}, {"workdir", {"w"}}, {"scratch", {"/s,t"}}});
    CHECK(mounts_of(folders) ==
          Texts{"/home/ann/work/w/home>/home/ann", "/home/ann/work/w/var_tmp>/var/tmp", "/home/ann/work/w/tmp>/tmp",
                "/home/ann/work/w/scratch/s>/s", "/home/ann/work/w/scratch/t>/t"});
    CHECK(folders.folders.size() == 5);
    CHECK(mounts_of(start({{"scratch", {"/s"}}, {"no-mount", {"tmp,cwd"}}})) == Texts{"tmpfs>/s"});
    Start skipped = start({{"no-mount", {"home", "cwd"}}}, {"/data", "/home/ann"});
    CHECK(skipped.request.mount_home == false);
    CHECK(skipped.request.workdir == "/home/ann");
    CHECK_THROWS_WITH(start({{"no-mount", {"proc"}}}), Contains("--no-mount proc"));
    CHECK_THROWS_WITH(start({{"no-mount", {"etc"}}}), Contains("etc: write home"));
    CHECK(start({{"no-mount", {"/etc/resolv.conf"}}}).left_out == Texts{"/etc/resolv.conf"});
    CHECK(start({{"no-mount", {"bind-paths"}}}).left_out == Texts{"/etc/hosts", "/etc/localtime"});
}

TEST_CASE("apptainer: the home is the account's, another one, or none", "[apptainer]") {
    Start none = start({{"no-home", {""}}});
    CHECK(none.request.mount_home == false);
    CHECK(none.home == "/home/ann");
    // What is below the home is no longer there by itself.
    CHECK(mounts_of(none) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp", "/home/ann/work>/home/ann/work"});
    Start other = start({{"home", {"h:/home/guest"}}});
    CHECK(mounts_of(other).back() == "/home/ann/work/h>/home/guest");
    CHECK(value(other, "HOME") == "/home/guest");
    CHECK(mounts_of(start({{"home", {"/data/h"}}})).back() == "/data/h>/data/h");
    CHECK(mounts_of(start({{"home", {"/data/h"}}, {"contain", {""}}}))[0] == "/data/h>/data/h");
    Start root = start({{"fakeroot", {""}}});
    CHECK(root.request.remap_root == true);
    CHECK(root.request.mount_home == true);
    CHECK(value(root, "HOME") == "/root");
    CHECK(mounts_of(root).back() == "/home/ann/work>/home/ann/work");
    CHECK_THROWS_WITH(start({{"home", {"a:b:c"}}}), Contains("SRC:DST"));
    CHECK_THROWS_WITH(start({{"home", {"a:b"}}}), Contains("absolute"));
}

TEST_CASE("apptainer: a directory that a mount hides is not entered unasked", "[apptainer]") {
    Start other = start({{"home", {"/data:/home"}}});
    CHECK(mounts_of(other) == Texts{"/var/tmp>/var/tmp", "/tmp>/tmp", "/data>/home"});
    CHECK(other.request.workdir == "/home");
    Start hidden = start({{"contain", {""}}, {"bind", {"/data:/home"}}});
    CHECK(hidden.request.workdir == "/home/ann");
    CHECK(shown_at(hidden, "/home/ann") == "/data/ann");
    CHECK(shown_at(start({{"bind", {"/data:/a"}}, {"scratch", {"/b"}}}), "/a") == "/data");
    CHECK(shown_at(start({{"bind", {"/data:/a"}}, {"scratch", {"/b"}}}), "/b/x").empty());
    CHECK(shown_at(start({}), "/srv").empty());
    CHECK_THROWS_WITH(start({{"overlay", {"/o"}}, {"writable-tmpfs", {""}}}), Contains("goes not with --overlay"));
}

TEST_CASE("apptainer: --bind in each form", "[apptainer]") {
    CHECK(shown(binds_of("/a")) == Texts{"/a>/a"});
    CHECK(shown(binds_of("/a,/b:/c,/d:/e:ro")) == Texts{"/a>/a", "/b>/c", "/d>/e:ro"});
    CHECK(shown(binds_of("/a:/b:ro,rw,/c")) == Texts{"/a>/b:ro", "/c>/c"});
    CHECK(shown(binds_of("/a:/b:rw")) == Texts{"/a>/b"});
    CHECK(shown(binds_of("/a\\,b:/c\\:d")) == Texts{"/a,b>/c:d"});
    CHECK(shown(binds_of("/ro,ro")) == Texts{"/ro>/ro", "ro>ro"});
    CHECK(shown(binds_of(" /a , ")) == Texts{"/a>/a"});
    CHECK_THROWS_WITH(binds_of("/a:/b:bad"), Contains("--bind /a:/b:bad: bad is no option"));
    CHECK_THROWS_WITH(binds_of("/a:/b:ro:x"), Contains("two colons"));
    CHECK_THROWS_WITH(binds_of(":/b"), Contains("source is missing"));
    CHECK_THROWS_WITH(binds_of("/a:b"), Contains("destination is to be absolute"));
    CHECK_THROWS_WITH(binds_of_mount("src=/a,dst=b"), Contains("destination is to be absolute"));
    CHECK(binds_of("d.sqsh:/b:image-src=/")[0].mount.kind == plan::MountRequest::Kind::squashfs);
    CHECK(shown(binds_of("d.sqsh:/b:ro,image-src=/,/c")) == Texts{"d.sqsh>/b:ro", "/c>/c"});
    CHECK_THROWS_WITH(binds_of("d.img:/b:image-src=/x"), Contains("of an image only all files"));
    CHECK_THROWS_WITH(binds_of("d.img:/b:image-src=/,id=2"), Contains("id= is not possible"));
    Start several = start({{"bind", {"x:/x", "/data"}}, {"mount", {"type=bind,src=/m,dst=/n,nonested"}}});
    CHECK(mounts_of(several) ==
          Texts{"/var/tmp>/var/tmp", "/tmp>/tmp", "/home/ann/work/x>/x", "/data>/data", "/m>/n"});
    CHECK(value(several, "APPTAINER_BIND") == "/x,/data");
    CHECK(value(several, "SINGULARITY_BIND") == "/x,/data");
}

TEST_CASE("apptainer: --mount in each form", "[apptainer]") {
    CHECK(shown(binds_of_mount("type=bind,source=/a,destination=/b")) == Texts{"/a>/b"});
    CHECK(shown(binds_of_mount("src=/a,dst=/b,ro")) == Texts{"/a>/b:ro"});
    CHECK(shown(binds_of_mount("src=/a,target=/b,readonly")) == Texts{"/a>/b:ro"});
    CHECK(shown(binds_of_mount("\"src=/a,1\",dst=/b\nsrc=/c,dst=/d")) == Texts{"/a,1>/b", "/c>/d"});
    Bind data = binds_of_mount("type=bind,source=d.sqsh,destination=/data,image-src=/")[0];
    CHECK((data.mount.kind == plan::MountRequest::Kind::squashfs && data.mount.read_only));
    CHECK_THROWS_WITH(binds_of_mount("src=d.sqsh,dst=/data,image-src=/x"), Contains("of an image only all files"));
    for (const char* wrong : {"type=tmpfs,destination=/a", "src=/a", "dst=/a", "src=/a,dst=/b,nosuch",
                              "src=/a,dst=/b,bind-propagation=shared", "src=/a,dst=/b,id=2", "\"src=/a,dst=/b"})
        CHECK_THROWS_AS(binds_of_mount(wrong), Error);
}

TEST_CASE("apptainer: what is written goes to memory, a folder, or the image", "[apptainer]") {
    CHECK(start({{"writable-tmpfs", {""}}}).request.writable == true);
    Start overlay = start({{"overlay", {"o"}}});
    CHECK(overlay.request.writable == true);
    CHECK(overlay.overlays.writable == "/home/ann/work/o");
    CHECK(start({{"overlay", {"/o:rw"}}}).overlays.writable == "/o");
    Start writable = start({{"writable", {""}}});
    CHECK(writable.in_place);
    CHECK_THROWS_WITH(start({{"writable", {""}}, {"writable-tmpfs", {""}}}), Contains("--writable"));
    CHECK_THROWS_WITH(start({{"writable", {""}}}, at_work, "docker://x"), Contains("no directory"));
}

TEST_CASE("apptainer: namespaces, and networks that need root", "[apptainer]") {
    CHECK(start({{"net", {""}}, {"network", {"none"}}}).request.unshare == plan::OwnNamespaces{.net = true});
    CHECK(start({{"network", {"none"}}}).request.unshare.net);
    CHECK_FALSE(start({{"network", {"host"}}}).request.unshare.net);
    CHECK(start({{"net", {""}}, {"fakeroot", {""}}}).request.unshare.net);
    CHECK_THROWS_WITH(start({{"net", {""}}}), Contains("--network none"));
    CHECK_THROWS_WITH(start({{"network", {"bridge"}}}), Contains("--network bridge: networks of CNI"));
    Start named = start({{"hostname", {"box"}}});
    CHECK(named.hostname == "box");
    CHECK(named.request.unshare.uts);
    CHECK(start({{"pid", {""}}, {"ipc", {""}}, {"userns", {""}}}).request.unshare ==
          plan::OwnNamespaces{.ipc = true, .pid = true});
}

TEST_CASE("apptainer: devices are asked for by Berth's variables", "[apptainer]") {
    CHECK(value(start({}), "NVIDIA_VISIBLE_DEVICES") == "not set");
    CHECK(value(start({{"nv", {""}}}), "NVIDIA_VISIBLE_DEVICES") == "all");
    CHECK(value(start({{"nvccli", {""}}}), "NVIDIA_DRIVER_CAPABILITIES") == "all");
    CHECK(value(start({{"nv", {""}}, {"no-nv", {""}}}), "NVIDIA_VISIBLE_DEVICES") == "void");
    CHECK(value(start({{"rocm", {""}}}), "AMD_VISIBLE_DEVICES") == "all");
    CHECK(start({{"device", {"nvidia.com/gpu=all,a.com/b=c"}}}).request.devices ==
          Texts{"nvidia.com/gpu=all", "a.com/b=c"});
}

TEST_CASE("apptainer: images are files unless they say otherwise", "[apptainer]") {
    CHECK(image_of("x.sif") == "./x.sif");
    CHECK(image_of("dir/x") == "./dir/x");
    CHECK(image_of("/a/x.sqsh") == "/a/x.sqsh");
    CHECK(image_of("../x") == "../x");
    CHECK(image_of("docker://debian:12") == "docker://debian:12");
    CHECK(image_of("oci:d") == "oci:d");
    CHECK(image_of("oci-archive:f.tar") == "oci-archive:f.tar");
    CHECK(image_of("docker-archive:f.tar") == "docker-archive:f.tar");
    CHECK(image_of("docker-daemon://x:1") == "dockerd://x:1");
    CHECK(image_of("docker-daemon:x:1") == "dockerd://x:1");
    for (const char* other : {"library://a/b", "shub://a", "oras:h/a:1", "https://h/x.sif", "ipfs://x",
                              "instance://i", ""})
        CHECK_THROWS_AS(image_of(other), Error);
    CHECK(image_of("oras://h/a:1") == "oras://h/a:1");
    CHECK(artifact_of("oras://h/a:1") == "h/a:1");
    CHECK(artifact_of("docker://h/a:1").empty());
    CHECK_FALSE(is_file("oras://h/a:1"));
    Start fetched = start({}, at_work, "oras://h/a:1");
    CHECK(value(fetched, "APPTAINER_CONTAINER") == "oras://h/a:1");
    CHECK(value(fetched, "SINGULARITY_NAME") == "a:1");
    Start named = start({});
    CHECK(value(named, "APPTAINER_CONTAINER") == "/home/ann/work/x.sif");
    CHECK(value(named, "SINGULARITY_NAME") == "x.sif");
    CHECK(value(named, "APPTAINER_COMMAND") == "exec");
    CHECK(value(named, "PS1") == "Apptainer> ");
    CHECK(start_of(Action::run, "x.sif", {}, at_work).request.entrypoint == true);
}

TEST_CASE("apptainer: variables stand for flags, and give way to them", "[apptainer]") {
    Given given{{"home", {"/a"}}, {"bind", {"/x"}}};
    add_variables(given, {"APPTAINER_HOME=/b", "SINGULARITY_BIND=/y,/z:/w", "APPTAINER_BINDPATH=/p", "APPTAINER_NV=1",
                          "SINGULARITY_ROCM=false", "SINGULARITY_CONTAIN=true", "APPTAINER_WORKDIR= ",
                          "APPTAINER_NOENV=A , B", "SINGULARITY_NO_HOME=True", "APPTAINER_UNSHARE_PID=t"});
    CHECK(given["home"] == Texts{"/a"});
    CHECK(given["bind"] == Texts{"/x", "/y,/z:/w", "/p"});
    CHECK(given.contains("nv"));
    CHECK_FALSE(given.contains("rocm"));
    CHECK(given.contains("contain"));
    CHECK(given.contains("no-home"));
    CHECK(given.contains("pid"));
    CHECK_FALSE(given.contains("workdir"));
    CHECK(given["no-env"] == Texts{"A , B"});
    Given both;
    add_variables(both, {"SINGULARITY_HOME=/old", "APPTAINER_HOME=/new"});
    CHECK(both["home"] == Texts{"/new"});
    CHECK_THROWS_WITH(add_variables(both, {"APPTAINER_NV=maybe"}), Contains("APPTAINER_NV=maybe"));
}

TEST_CASE("apptainer: what cannot be is refused in one line", "[apptainer]") {
    for (const Flag& row : action_flags()) {
        INFO(row.names);
        CHECK((row.standing == Standing::done || *row.word != '\0'));
        if (row.standing != Standing::refused) {
            CHECK(*row.help != '\0');
            continue;
        }
        CHECK_THROWS_WITH(refuse_flags({{row.name(), {""}}}, false), Contains("--" + row.name() + ": "));
    }
    // Of a login for registries an image of a file knows nothing.
    CHECK_NOTHROW(refuse_flags({{"docker-username", {"u"}}}, true));
    CHECK(std::is_sorted(action_flags().begin(), action_flags().end(),
                         [](const Flag& one, const Flag& other) { return one.name() < other.name(); }));
    CHECK(instead_of("sign").starts_with("apptainer sign: "));
    CHECK(instead_of("keyserver").starts_with("apptainer keyserver: "));
    CHECK(instead_of("nosuch").starts_with("there is no command nosuch"));
}

TEST_CASE("apptainer: variables that the user sets", "[apptainer]") {
    auto set = [](const Given& given, const Texts& environment, const std::vector<Texts>& files = {}) {
        return variables_of(given, files, environment, Ids{1001, 1002});
    };
    CHECK(set({{"env", {"A=1"}}}, {}).set == Texts{"A=1"});
    CHECK(set({{"env", {"B=2,A=1"}}}, {}).set == Texts{"A=1", "B=2"});
    CHECK(set({{"env", {"L=/foo,"}}}, {}).set == Texts{"L=/foo,"});
    CHECK(set({{"env", {"A=1", "A=2"}}}, {}).set == Texts{"A=2"});
    CHECK(set({{"env", {"A="}}}, {}).set == Texts{"A="});
    CHECK(set({{"env", {"A=1"}}}, {"APPTAINERENV_A=2", "SINGULARITYENV_B=3", "APPTAINERENV_B=4", "C=5"}).set ==
          Texts{"A=1", "B=4"});
    CHECK(set({}, {"APPTAINERENV_A=2"}, {{"A=1", "A=3"}}).set == Texts{"A=3"});
    CHECK(set({}, {"APPTAINERENV_PATH=/usr/bin:/bin,"}).set == Texts{"PATH=/usr/bin:/bin,"});
    CHECK(set({}, {"APPTAINERENV_PREPEND_PATH=/a", "SINGULARITYENV_APPEND_PATH=/b"}).expanded ==
          Texts{"PATH=/a:${PATH-}:/b"});
    CHECK(set({{"env", {"PATH=/foo:$PATH"}}}, {}).expanded == Texts{"PATH=/foo:${PATH-}"});
    CHECK(set({{"env", {"X=a$b$"}}}, {}).expanded == Texts{"X=a${b-}$"});
    CHECK(set({{"env", {"X=$Y"}}, {"no-eval", {""}}}, {}).set == Texts{"X=$Y"});
    CHECK(set({{"no-eval", {""}}}, {"APPTAINERENV_APPEND_PATH=/$b"}).expanded == Texts{"PATH=${PATH-}:/$$b"});
    Variables home = set({}, {"APPTAINERENV_HOME=/x"});
    CHECK(home.set.empty());
    CHECK(set({}, {"APPTAINERENV_APPTAINER_APPNAME=x"}).set.empty());
    CHECK_THAT(home.warnings.at(0), Contains("Overriding HOME environment variable with APPTAINERENV_HOME"));
    CHECK_THROWS_WITH(set({{"env", {"A"}}}, {}), Contains("--env A: write NAME=VALUE"));
    CHECK(set({}, {"APPTAINERENV_PREPEND_LD_LIBRARY_PATH=/a", "APPTAINERENV_APPEND_X=b"}).evaluated ==
          Texts{"LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH:+:}${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH}"});
    CHECK(set({}, {"APPTAINERENV_PREPEND_X=b"}).set == Texts{"PREPEND_X=b"});
}

TEST_CASE("apptainer: values are read as a shell reads them in double quotes, by a shell where it takes one",
          "[apptainer]") {
    auto set = [](const std::string& value, bool eval = true) {
        Given given;
        if (!eval) given["no-eval"] = {""};
        return variables_of(given, {}, {"APPTAINERENV_X=" + value}, Ids{1001, 1002});
    };
    for (const char* plain : {"ME", "'a b'", "\"q\"", "$", "a$/", "a\\b", ""})
        CHECK(set(plain).set == Texts{cat("X=", plain)});
    CHECK(set("$UID-${EUID}-$GID").set == Texts{"X=1001-1001-1002"});
    CHECK(set("\\$UID").expanded == Texts{"X=$$UID"});
    CHECK(set("/b/\\$LIB/b.so").expanded == Texts{"X=/b/$$LIB/b.so"});
    CHECK(set("a\\\\b\\`c").set == Texts{"X=a\\b`c"});
    CHECK(set("\\$(id)").expanded == Texts{"X=$$(id)"});
    CHECK(set("${A:-b}${C+d}").expanded == Texts{"X=${A:-b}${C+d}"});
    for (const char* of_shell : {"$(id -u)", "\"`id`\"", "$$", "${A#b}", "${A:=b}", "${A:-$B}", "${A", "$1"}) {
        CHECK(set(of_shell).evaluated == Texts{cat("X=", of_shell)});
        CHECK(set(of_shell, false).set == Texts{cat("X=", of_shell)});
    }
    CHECK_THAT(script_reader({}, set("\"$(id)\"")).at(2), Contains("export X=\"\\\"$(id)\\\"\"; exec"));
}

TEST_CASE("apptainer: what asks for folders of a cache", "[apptainer]") {
    CHECK(places_asked_for({"A=1", "APPTAINER_CACHEDIR="}, false).empty());
    CHECK(places_asked_for({"SINGULARITY_CACHEDIR=/c", "APPTAINER_TMPDIR=/t"}, true) ==
          "SINGULARITY_CACHEDIR, APPTAINER_TMPDIR");
    CHECK(places_asked_for({}, true) == "--tmpdir");
}

TEST_CASE("apptainer: lines of --env-file", "[apptainer]") {
    CHECK(lines_of_file("# all\n\nA=1\nexport B=\"two words\"\nC='x'\n", "f") == Texts{"A=1", "B=two words", "C=x"});
    CHECK(lines_of_file("PATH=\"\\$PATH:/\"", "f") == Texts{"PATH=$PATH:/"});
    CHECK_THROWS_WITH(lines_of_file("A=1\nB=$(date)\n", "f"), Contains("--env-file f: line 2"));
    CHECK_THROWS_WITH(lines_of_file("echo hello\n", "f"), Contains("line 1"));
}

TEST_CASE("apptainer: which variables of the node get in", "[apptainer]") {
    auto passes = passing({});
    for (const char* name : {"FOO", "LANG", "SLURM_JOB_ID", "TERM", "USER"}) CHECK(passes(name));
    for (const char* name : {"HOME", "PATH", "LD_LIBRARY_PATH", "APPTAINER_BIND", "SINGULARITY_CACHEDIR",
                             "APPTAINERENV_X", "BASH_FUNC_ml%%"})
        CHECK_FALSE(passes(name));
    auto clean = passing({{"cleanenv", {""}}});
    CHECK(clean("TERM"));
    CHECK(clean("https_proxy"));
    CHECK_FALSE(clean("FOO"));
    auto less = passing({{"no-env", {"FOO,BAR"}}});
    CHECK_FALSE(less("BAR"));
    CHECK(less("BAZ"));
}

TEST_CASE("apptainer: scripts of the image are read before what is set", "[apptainer]") {
    Texts words = script_reader({"A=it's"}, {.expanded = {"PATH=/a\"b:${PATH-}:$$"}});
    CHECK_THAT(words.at(2), Contains("export A='it'\\''s'; export PATH=\"/a\\\"b:${PATH-}:\\$\"; exec \"$@\""));
    CHECK(shell_command("/bin/zsh") == Texts{"/bin/zsh"});
    CHECK(test_command({"x"}).back() == "x");
}

TEST_CASE("apptainer: an app's environment is read after the image's and before what is set", "[apptainer]") {
    Start app = start({{"app", {"my-app.1"}}});
    CHECK(app.app == "my-app.1");
    CHECK(value(app, "APPTAINER_APPNAME") == "my-app.1");
    CHECK(value(app, "SINGULARITY_APPNAME") == "my-app.1");
    CHECK(start_of(Action::run, "x.sif", {{"app", {"a"}}}, at_work).request.entrypoint == false);
    CHECK(start({}).app.empty());
    for (const char* name : {"", "../x", ".hidden", "a b", "a/b", "a;b", "$x"})
        CHECK_THROWS_WITH(start({{"app", {name}}}), Contains("names of apps have letters"));
    std::string script = script_reader({"A=1"}, {}, "my-app.1").at(2);
    size_t folder = script.find("[ -d /scif/apps/my-app.1 ]"), own = script.find("/scif/apps/my-app.1/scif/env/*.sh"),
           set = script.find("export A='1'");
    CHECK(folder < own);
    CHECK(own < set);
    CHECK_THAT(script, Contains("SCIF_APPDATA=/scif/data/my-app.1 ") && !Contains("94-appsbase"));
    CHECK_THAT(script_reader({}, {}).at(2), Contains("94-appsbase") && !Contains("/scif"));
    Texts run = app_command("a", "runscript", {"x", "y z"});
    CHECK_THAT(run.at(2), Contains("exec /scif/apps/a/scif/runscript \"$@\""));
    CHECK(Texts(run.begin() + 3, run.end()) == Texts{"sh", "x", "y z"});
}

TEST_CASE("apptainer: name servers are written over the node's", "[apptainer]") {
    CHECK(start({}).edits.empty());
    Start servers = start({{"dns", {"192.0.2.1, 2001:db8::1"}}});
    REQUIRE(servers.edits.size() == 2);
    CHECK(std::get<plan::DropIn>(servers.edits[0].action).content ==
          "nameserver 192.0.2.1\nnameserver 2001:db8::1\n");
    const auto& mount = std::get<plan::Mount>(servers.edits[1].action);
    CHECK(mount.target == "/etc/resolv.conf");
    CHECK(mount.inside);
    for (const char* text : {"", "one.example", "192.0.2.1,", "192.0.2.300", "192.0.2.1\nsearch x"})
        CHECK_THROWS_WITH(start({{"dns", {text}}}), Contains("write addresses"));
}

TEST_CASE("apptainer: processes of a step join where each would have nothing of its own to itself", "[apptainer]") {
    auto joins = [](const Given& given) { return start(given).joins; };
    CHECK(joins({}));
    CHECK(joins({{"nv", {""}}, {"cleanenv", {""}}, {"bind", {"/a"}}, {"fakeroot", {""}}, {"no-home", {""}}}));
    CHECK(joins({{"contain", {""}}, {"workdir", {"w"}}}));
    CHECK(joins({{"overlay", {"o"}}}));
    CHECK(joins({{"writable", {""}}}));
    Given own[] = {{{"writable-tmpfs", {""}}}, {{"contain", {""}}}, {{"containall", {""}}}, {{"compat", {""}}},
                   {{"pid", {""}}}, {{"ipc", {""}}}, {{"uts", {""}}}, {{"net", {""}}, {"network", {"none"}}},
                   {{"scratch", {"/s"}}}, {{"no-mount", {"tmp"}}}};
    for (Given& given : own) {
        INFO(given.begin()->first);
        CHECK_FALSE(joins(given));
        given["sharens"] = {""};
        CHECK(joins(given));
        CHECK(start(given).join_asked);
    }
}

TEST_CASE("apptainer: every flag of 1.5.3 is in the table, and the page about them says what the table does",
          "[apptainer]") {
    Texts names, rows;
    for (const Flag& row : action_flags()) {
        names.push_back(row.name());
        std::string all = row.names, head = cat("| `--", row.name(), "`");
        if (!all.starts_with("--")) head += cat(", `", all.substr(0, 2), "`");
        std::string text = row.standing == Standing::done ? row.help : row.word, escaped;
        for (char letter : text) escaped += letter == '|' ? "\\|" : std::string(1, letter);
        const char* standing = row.standing == Standing::done      ? "done"
                               : row.standing == Standing::differs ? "differs"
                                                                   : "refused";
        rows.push_back(cat(head, " | ", standing, " | ", escaped, " |"));
    }
    Texts theirs, written;
    for (const std::string& line : split(sys::read_file("tests/fixtures/apptainer/flags-1.5.3"), '\n'))
        if (!line.empty()) theirs.push_back(line);
    CHECK(names == theirs);
    for (const std::string& line : split(sys::read_file("docs/migration-apptainer.md"), '\n'))
        if (line.starts_with("| `--")) written.push_back(line);
    CHECK(written == rows);
}

TEST_CASE("apptainer: instances are listed in Apptainer's form", "[apptainer]") {
    std::vector<ListedInstance> two{{"web", "/i/w.sif", "/l/web.out", "/l/web.err", 22084},
                                    {"a-longer-name-here", "docker://d:1", "/l/a.out", "/l/a.err", 7}};
    CHECK(instance_table(two, false) == "INSTANCE NAME         PID      IP    IMAGE\n"
                                        "web                   22084          /i/w.sif\n"
                                        "a-longer-name-here    7              docker://d:1\n");
    CHECK(instance_table({two[0]}, true) == "INSTANCE NAME    PID      LOGS\n"
                                            "web              22084    /l/web.err\n"
                                            "                          /l/web.out\n");
    CHECK(instance_table({}, false) == "INSTANCE NAME    PID    IP    IMAGE\n");
    CHECK(instance_json({}) == "{\n\t\"instances\": []\n}\n");
    CHECK(instance_json({two[0]}) ==
          "{\n\t\"instances\": [\n\t\t{\n\t\t\t\"instance\": \"web\",\n\t\t\t\"pid\": 22084,\n"
          "\t\t\t\"img\": \"/i/w.sif\",\n\t\t\t\"ip\": \"\",\n\t\t\t\"logErrPath\": \"/l/web.err\",\n"
          "\t\t\t\"logOutPath\": \"/l/web.out\"\n\t\t}\n\t]\n}\n");
    CHECK(signal_of("SIGTERM") == 15);
    CHECK(signal_of("TERM") == 15);
    CHECK(signal_of("9") == 9);
    for (const char* word : {"", "0", "65", "SIG", "NONE", "term"})
        CHECK_THROWS_WITH(signal_of(word), Contains("--signal"));
}

TEST_CASE("apptainer: what an instance is made of and starts", "[apptainer]") {
    CHECK(instance_of("instance://web") == "web");
    CHECK(instance_of("docker://web").empty());
    CHECK_THROWS_WITH(image_of("instance://web"), Contains("starting an instance from another is not allowed"));
    CHECK(start_script("") == "/.singularity.d/startscript");
    CHECK(start_script("tool") == "/scif/apps/tool/scif/startscript");
    CHECK(word_of(Action::start) == std::string("start"));
}

TEST_CASE("apptainer: a pull writes NAME_TAG.sif", "[apptainer]") {
    CHECK(file_name_of("docker://debian") == "debian_latest.sif");
    CHECK(file_name_of("docker://quay.io/a/b:1.2") == "b_1.2.sif");
    CHECK(file_name_of("docker://127.0.0.1:5000/x/y:z") == "y_z.sif");
    CHECK(file_name_of("oras://h:5000/x/y:z") == "y_z.sif");
    CHECK(file_name_of("oci:/d/layout:tag") == "layout_tag.sif");
    CHECK(file_name_of("docker-archive:/d/a.tar") == "a_latest.sif");
    CHECK_THROWS_WITH(file_name_of("x.sif"), Contains("file already"));
    CHECK_THROWS_AS(file_name_of("library://a/b"), Error);
}

namespace {

/// An image of these files.
ImageReader reader_of(const std::map<std::string, std::string>& files) {
    auto text = [files](const std::string& path) { return files.contains(path) ? files.at(path) : ""; };
    auto names = [files](const std::string& path) {
        std::set<std::string> out;
        for (const auto& [name, content] : files)
            if (name.starts_with(path + "/")) out.insert(split(name.substr(path.size() + 1), '/').front());
        return std::vector<std::string>(out.begin(), out.end());
    };
    return {text, names};
}

const std::map<std::string, std::string> of_inspection = {
    {"/.singularity.d/labels.json", "{\n\t\"z.b\": \"c \\\"d\\\"\",\n\t\"a\": \"f\", \"n\": 1}\n"},
    {"/.singularity.d/Singularity", "bootstrap: docker\n"},
    {"/.singularity.d/runscript", "#!/bin/sh\n\nexec \"$@\"\n\n"},
    {"/.singularity.d/runscript.help", "help\n"},
    {"/.singularity.d/env/01-base.sh", "# Apptainer's\n"},
    {"/.singularity.d/env/10-docker2singularity.sh", "export D=1\n"},
    {"/.singularity.d/env/90-environment.sh", "export X=1\n"},
    {"/.singularity.d/env/95-apps.sh", "# Apptainer's\n"},
    {"/scif/apps/hello/scif/runscript", "#!/bin/sh\necho hello\n"},
    {"/scif/apps/hello/scif/labels.json", "{\"IS\": \"hello\"}"},
    {"/scif/apps/hello/scif/env/90-environment.sh", "H=1\n"},
    {"/scif/apps/hello/scif/env/01-base.sh", "A=1\n"},
    {"/scif/apps/world/scif/test", "true\n"},
};

}  // namespace

TEST_CASE("apptainer: inspect prints what files of the image say, as text", "[apptainer]") {
    ImageReader image = reader_of(of_inspection);
    CHECK(inspected({}, image) == "a: f\nz.b: c \"d\"\n");
    CHECK(inspected({.runscript = true}, image) == "#!/bin/sh\n\nexec \"$@\"\n");
    CHECK(inspected({.labels = true, .deffile = true, .helpfile = true}, image) ==
          "bootstrap: docker\nhelp\na: f\nz.b: c \"d\"\n");
    CHECK(inspected({.environment = true}, image) ==
          "=== /.singularity.d/env/10-docker2singularity.sh ===\nexport D=1\n\n"
          "=== /.singularity.d/env/90-environment.sh ===\nexport X=1\n\n");
    CHECK(inspected({.test = true}, image).empty());
    CHECK(inspected({.apps = true}, image) == "hello\nworld\n");
    CHECK(inspected({.app = "hello"}, image) == "IS: hello\n");
    CHECK(inspected({.runscript = true, .app = "hello"}, image) == "#!/bin/sh\necho hello\n");
    CHECK(inspected({.environment = true, .app = "hello"}, image) ==
          "=== /scif/apps/hello/scif/env/90-environment.sh ===\nH=1\n\n");
    CHECK(inspected({.app = "none"}, image).empty());
    CHECK(inspected({}, reader_of({{"/.singularity.d/labels.json", "{\"a\": "}})).empty());
    CHECK(inspected({}, reader_of({{"/.singularity.d/labels.json", "[1]"}})).empty());
}

TEST_CASE("apptainer: inspect prints JSON in Apptainer's form", "[apptainer]") {
    ImageReader image = reader_of(of_inspection);
    CHECK(inspected({.json = true}, reader_of({})) ==
          "{\n\t\"data\": {\n\t\t\"attributes\": {}\n\t},\n\t\"type\": \"container\"\n}\n");
    auto attributes = [&](const Inspection& asked) {
        auto out = nlohmann::json::parse(inspected(asked, image));
        CHECK(out["type"] == "container");
        return out["data"]["attributes"];
    };
    CHECK(attributes({.json = true}) == nlohmann::json{{"labels", {{"a", "f"}, {"z.b", "c \"d\""}}}});
    CHECK(attributes({.runscript = true, .json = true}) == nlohmann::json{{"runscript", "#!/bin/sh\n\nexec \"$@\""}});
    CHECK(attributes({.apps = true, .json = true})["apps"].size() == 2);
    CHECK(attributes({.labels = true, .json = true, .app = "hello"}) ==
          nlohmann::json{{"apps", {{"hello", {{"labels", {{"IS", "hello"}}}}}}}});
    auto all = attributes({.all = true});
    CHECK(all["deffile"] == "bootstrap: docker");
    CHECK(all["environment"].size() == 2);
    CHECK(all["apps"]["hello"]["environment"]["/scif/apps/hello/scif/env/90-environment.sh"] == "H=1");
    CHECK(all["apps"]["world"]["test"] == "true");
}
