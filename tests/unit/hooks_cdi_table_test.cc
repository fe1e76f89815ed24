// Forms of CDI specifications that others write: each is read, or refused for the one device that is asked for. The
// texts are our own, after the valid ones in the tests of the schema and of the cache in CDI's repository.
#include <sys/stat.h>
#include <unistd.h>

#include "hooks/cdi_native.hh"
#include "runtime/base/environment.hh"
#include "tests/catch.hh"
#include "tests/fixtures/cdi_scenes.hh"
#include "tests/fixtures/elf_library.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

struct Row {
    const char* name;
    std::vector<std::pair<std::string, std::string>> files;
    std::string device, nodes, error;
};

/// A block device "v1-NAME" of the kind.
std::string cache_spec(const std::string& kind, const std::vector<std::string>& names, const std::string& more = {}) {
    std::string out = cat("\ncdiVersion: \"0.3.0\"\nkind:       \"", kind, "\"\n", more, "devices:\n");
    for (const std::string& name : names)
        out += cat("  - name: \"", name, "\"\n    containerEdits:\n      env:\n      - \"V1_", name,
                   "=x\"\n      deviceNodes:\n      - path: \"/dev/v1-", name,
                   "\"\n        type: b\n        major: 10\n        minor: 1\n");
    return out;
}

const std::string spec_hooks = R"(
cdiVersion: "0.3.0"
kind: "vendor1.com/device"
containerEdits:
  env:
  - V1_SPEC=1
devices:
  - name: "dev1"
    containerEdits:
      deviceNodes:
      - path: "/dev/v1-dev1"
  - name: "dev2"
    containerEdits:
      deviceNodes:
      - path: "/dev/v1-dev2"
      hooks:
      - hookName: prestart
        path: "/usr/local/bin/prestart-hook"
        args:
        - "--verbose"
        env:
        - "HOOK=1"
      - hookName: createRuntime
        path: "/usr/local/bin/create-hook"
        args:
        - "--debug"
)";

const std::string example = R"({"cdiVersion": "0.6.0", "kind": "vendor.com/device",
  "devices": [{"name": "mine", "containerEdits": {"deviceNodes": [
    {"hostPath": "/vendor/dev/card1", "path": "/dev/card1"}, {"path": "/dev/card2"}]}}],
  "containerEdits": {"env": ["FOO=SPEC", "BAR=1"], "deviceNodes": [{"path": "/dev/ctl", "uid": 1000, "gid": 1000}],
    "mounts": [{"hostPath": "/bin/tool", "containerPath": "/bin/tool"},
      {"hostPath": "/usr/lib/libVendor.so.0", "containerPath": "/usr/lib/libVendor.so.0"}],
    "hooks": [)";

const std::vector<Row>& rows() {
    static const std::vector<Row> all = {
        {"the smallest one",
         {{"/etc/cdi/a.json",
           R"({"cdiVersion":"0.3.0","kind":"vendor.com/device","devices":[{"name":"mine","containerEdits":)"
           R"({"deviceNodes":[{"path":"/dev/card1"}]}}]})"}},
         "vendor.com/device=mine", "card1", ""},
        {"the example, whose second hook is ldconfig",
         {{"/etc/cdi/a.json",
           example + R"({"hookName": "startContainer", "path": "/usr/bin/ldconfig"}]}})"}},
         "vendor.com/device=mine", "card1 card2 ctl", ""},
        {"the example as it stands, with a hook of the vendor's",
         {{"/etc/cdi/a.json", example + R"({"hookName": "createContainer", "path": "/bin/vendor-hook"},)"
                                        R"({"hookName": "startContainer", "path": "/usr/bin/ldconfig"}]}})"}},
         "vendor.com/device=mine", "",
         "CDI device vendor.com/device=mine: /etc/cdi/a.json: the hook /bin/vendor-hook is none"},
        {"one file", {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"})}}, "vendor1.com/device=dev1",
         "v1-dev1", ""},
        {"two devices", {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1", "dev2"})}},
         "vendor1.com/device=dev1,vendor1.com/device=dev2", "v1-dev1 v1-dev2", ""},
        {"one of another folder takes precedence",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1", "dev2"})},
          {"/run/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"}, "containerEdits:\n  env:\n  - NEW=1\n")}},
         "vendor1.com/device=dev1", "v1-dev1", ""},
        {"a conflict",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1", "dev2"})},
          {"/etc/cdi/b.yaml", cache_spec("vendor1.com/device", {"dev1"})}},
         "vendor1.com/device=dev1", "", "/etc/cdi/a.yaml and /etc/cdi/b.yaml have it"},
        {"and beside it",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1", "dev2"})},
          {"/etc/cdi/b.yaml", cache_spec("vendor1.com/device", {"dev1"})}},
         "vendor1.com/device=dev2", "v1-dev2", ""},
        {"several kinds and classes",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"})},
          {"/etc/cdi/b.yaml", cache_spec("vendor1.com/other-device", {"dev1", "dev2"})},
          {"/etc/cdi/c.yaml", cache_spec("vendor3.com/yet-another-device", {"dev3"})}},
         "vendor1.com/other-device=dev2,vendor3.com/yet-another-device=dev3", "v1-dev2 v1-dev3", ""},
        {"hooks of one device: the other one", {{"/etc/cdi/a.yaml", spec_hooks}}, "vendor1.com/device=dev1", "v1-dev1",
         ""},
        {"hooks of one device: that one", {{"/etc/cdi/a.yaml", spec_hooks}}, "vendor1.com/device=dev2", "",
         "CDI device vendor1.com/device=dev2: /etc/cdi/a.yaml: device dev2: the hook /usr/local/bin/prestart-hook is"},
        {"no such device", {{"/etc/cdi/a.yaml", spec_hooks}}, "vendor1.com/device=dev3", "",
         "no specification of this node has it"},
        {"a kind that is none beside it",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"})},
          {"/etc/cdi/b.yaml", cache_spec("vendor1.comdevice", {"dev1"})}},
         "vendor1.com/device=dev1", "v1-dev1", ""},
        {"members without a value",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"},
                                         "annotations:\ncontainerEdits:\n")}},
         "vendor1.com/device=dev1", "v1-dev1", ""},
        {"lists without a value",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"},
                                         "containerEdits:\n  env:\n  hooks: ~\n  mounts: null\n  intelRdt:\n")}},
         "vendor1.com/device=dev1", "v1-dev1", ""},
        {"hooks of Hygon and Rebellions",
         {{"/etc/cdi/a.json",
           small_spec(R"({"deviceNodes":[{"path":"/dev/new"}],"hooks":[)"
                      R"({"hookName":"createContainer","path":"/usr/bin/hcu-cdi-hook",)"
                      R"("args":["hcu-cdi-hook","chmod","--mode","755","--path","/dev/dri"]},)"
                      R"({"hookName":"createContainer","path":"/usr/local/bin/rbln-cdi-hook",)"
                      R"("args":["rbln-cdi-hook","update-ldcache","--folder","/usr/lib64"],)"
                      R"("env":["DEBUG=false"]}]})")}},
         "a.com/b=x", "new", ""},
        {"of NVIDIA's hooks they have those that move files alone",
         {{"/etc/cdi/a.json",
           small_spec(R"({"hooks":[{"hookName":"createContainer","path":"/usr/bin/hcu-cdi-hook",)"
                      R"("args":["hcu-cdi-hook","enable-cuda-compat"]}]})")}},
         "a.com/b=x", "", "the hook enable-cuda-compat is none"},
        {"an unknown member of one device: the other one",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"}) +
                                  "  - name: odd\n    containerEdits:\n      capabilities: [x]\n"}},
         "vendor1.com/device=dev1", "v1-dev1", ""},
        {"an unknown member of one device: that one",
         {{"/etc/cdi/a.yaml", cache_spec("vendor1.com/device", {"dev1"}) +
                                  "  - name: odd\n    containerEdits:\n      capabilities: [x]\n"}},
         "vendor1.com/device=odd", "", "/etc/cdi/a.yaml: device odd: unknown member 'capabilities'"},
        {"a file system that no container can be given",
         {{"/etc/cdi/a.json",
           small_spec(R"({"mounts":[{"hostPath":"overlay","containerPath":"/x","type":"overlay",)"
                      R"("options":["lowerdir=/a:/b"]}]})")}},
         "a.com/b=x", "", "the mount on /x is of the type overlay; a container can be given bind and tmpfs"},
        {"an option of a tmpfs that is not known",
         {{"/etc/cdi/a.json",
           small_spec(R"({"mounts":[{"hostPath":"tmpfs","containerPath":"/x","type":"tmpfs",)"
                      R"("options":["mpol=x"]}]})")}},
         "a.com/b=x", "", "the tmpfs on /x has the option mpol=x; known are size=, mode=, nr_inodes= and huge="},
    };
    return all;
}

/// What of a node's wish is told, with the folders of the node named as they are on a node.
std::string told(const FakeHost& host, const std::string& device) {
    std::string why = reason_of([&] { find_cdi_devices(cdi_folders(host), split(device, ',')); });
    for (size_t at = 0; (at = why.find(host.path(), at)) != why.npos;) why.erase(at, host.path().size());
    return why;
}

struct Libraries {
    std::string names, links;  ///< "libx.so.1=/usr/lib64/libx.so.1 ", sorted
};

Libraries libraries_of(const plan::ContainerEdits& made) {
    Libraries out;
    for (const plan::Edit& edit : made.edits) {
        if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action))
            for (const plan::CachedLibrary& one : loader->libraries)
                out.names += cat(one.name, one.flags == loader_flags() ? "" : "(32)", "=", one.path, " ");
        if (const auto* link = std::get_if<plan::Symlink>(&edit.action))
            if (edit.reason == "a name of a library") out.links += cat(link->path, "->", link->target, " ");
    }
    return out;
}

CdiEdits edits_with(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& mounts) {
    CdiEdits out;
    out.library_folders = {folder};
    for (const auto& [source, target] : mounts) out.mounts.push_back({source, target, true, false});
    return out;
}

std::string library(const std::string& soname) { return ElfLibrary{.soname = soname}.bytes(); }

}  // namespace

TEST_CASE("cdi: each form is read, or refused for the one device that is asked for", "[hooks][cdi]") {
    for (const Row& row : rows()) {
        INFO(row.name);
        FakeHost host;
        for (const char* node : {"/dev/card1", "/dev/card2", "/dev/ctl", "/dev/v1-dev1", "/dev/v1-dev2", "/dev/v1-dev3",
                                 "/dev/new", "/vendor/dev/card1", "/bin/tool", "/usr/lib/libVendor.so.0"})
            host.node(node, 10, 1);
        for (const auto& [path, text] : row.files) host.file(path, text);
        FakeImage image;
        if (row.error.empty()) {
            CHECK(told(host, row.device) == "no error");
            CHECK(nodes_text(targets_below(cdi_asked(host, image, row.device), "/dev")) == row.nodes);
        } else {
            CHECK_THAT(told(host, row.device), Catch::Contains(row.error));
        }
    }
}

TEST_CASE("cdi: the file is blamed whose device is asked for", "[hooks][cdi]") {
    FakeHost host;
    host.file("/etc/cdi/aa.json", hook_spec(R"("evil")"));
    host.file("/etc/cdi/g.yaml", "kind: g.com/x\ncdiVersion: 0.5.0\ndevices: [\n");
    host.file("/etc/cdi/h.json", R"({"kind" : "g.com/x", "cdiVersion": "9.0.0"})");
    std::string why = told(host, "g.com/x=0");
    CHECK_THAT(why, Catch::Contains("/etc/cdi/g.yaml:4: this is no YAML"));
    CHECK_THAT(why, Catch::Contains("; /etc/cdi/h.json: cdiVersion 9.0.0 is not known"));
    CHECK_THAT(why, !Catch::Contains("aa.json"));
    // Where nothing is known of a file, it may be the one.
    host.file("/etc/cdi/i.json", "}");
    CHECK_THAT(told(host, "g.com/x=0"), !Catch::Contains("i.json"));
    CHECK_THAT(told(host, "k.com/y=0"), Catch::Contains("no specification of this node has it; /etc/cdi/i.json: "));
    CHECK(kind_in("a: kind\n 'kind' : 'a.com/b' # x") == "a.com/b");
    CHECK(kind_in("mankind: a/b\nkind: none\n") == "");
}

TEST_CASE("cdi: what is no regular file makes nobody wait", "[hooks][cdi]") {
    FakeHost host;
    host.file("/etc/cdi/a.json", node_spec("/dev/new"));
    REQUIRE(::mkfifo((host.path() + "/etc/cdi/b.json").c_str(), 0644) == 0);
    CHECK(told(host, "a.com/b=x") == "no error");
    CHECK(told(host, "a.com/b=y") == "CDI device a.com/b=y: no specification of this node has it; reading "
                                     "/etc/cdi/b.json: it is no regular file");
}

TEST_CASE("cdi: groups are named once, to who is in none of them", "[hooks][cdi]") {
    FakeHost host;
    auto device = [](const char* name, const char* groups) {
        return cat(R"({"name":")", name, R"(","containerEdits":{"additionalGids":)", groups, "}}");
    };
    host.file("/etc/cdi/a.json", cat(R"({"cdiVersion":"0.7.0","kind":"a.com/b","devices":[)", device("x", "[44, 109]"),
                                     ",", device("y", "[0, 44, 110]"), "]}"));
    FakeImage image;
    auto warned = [&] { return cdi_asked(host, image, "a.com/b=x,a.com/b=y").warnings; };
    REQUIRE(warned().size() == 1);
    CHECK_THAT(warned()[0], Catch::Contains("CDI: additionalGids has no effect for the groups 44, 109, 110, of which"));
    host.groups = {44, 110};
    REQUIRE(warned().size() == 1);
    CHECK_THAT(warned()[0], Catch::Contains("for the groups 109, of which"));
    host.groups = {44, 109, 110};
    CHECK(warned().empty());
    CHECK(Host().has_group(::getegid()));
}

TEST_CASE("cdi: mounts have their options, and stand in the order of their depth", "[hooks][cdi]") {
    FakeHost host;
    host.file("/etc/cdi/a.json",
              small_spec(R"({"deviceNodes":[{"path":"/dev/dri/card0"}],"mounts":[)"
                         R"({"hostPath":"/a","containerPath":"/opt/x/deep"},)"
                         R"({"hostPath":"/b","containerPath":"/opt/x/"},)"
                         R"({"hostPath":"/dri","containerPath":"/dev/dri","type":"bind"},)"
                         R"({"hostPath":"/c","containerPath":"/y","type":"nfs","options":["rbind","ro"]},)"
                         R"({"hostPath":"tmpfs","containerPath":"/scratch","type":"tmpfs",)"
                         R"("options":["nosuid","noexec","size=12g","mode=1777"]}]})"));
    FakeImage image;
    plan::ContainerEdits made = cdi_asked(host, image, "a.com/b=x");
    std::string targets;
    for (const plan::Edit& edit : made.edits)
        if (const auto* mount = std::get_if<plan::Mount>(&edit.action)) {
            targets += mount->target + " ";
            if (mount->target == "/scratch") {
                CHECK(mount->kind == plan::Mount::Kind::tmpfs);
                CHECK(mount->no_exec);
                CHECK(mount->options ==
                      std::vector<std::pair<std::string, std::string>>{{"size", "12g"}, {"mode", "1777"}});
            }
            if (mount->target == "/y") CHECK((mount->kind == plan::Mount::Kind::bind && mount->read_only));
        }
    CHECK(targets == "/y /scratch /opt/x /dev/dri /dev/dri/card0 /opt/x/deep ");
}

TEST_CASE("cdi: a mounted library has its SONAME, whatever number that has", "[hooks][cdi]") {
    FakeHost host;
    host.file("/opt/v/libdeep.so.12.3.4", library("libdeep.so.12"));
    host.file("/opt/v/libown.so.3", library("libown.so.3"));
    host.file("/opt/v/libnone.so.5.1", library(""));
    host.file("/opt/v/libtext.so.9.1", "a file that says nothing, and has a link on the node");
    host.link("/opt/v/libtext.so.9", "libtext.so.9.1");
    host.link("/opt/v/libtext.so.8", "libdeep.so.12.3.4");
    std::string narrow = library("libnarrow.so.1");
    narrow[EI_CLASS] = ELFCLASS32;
    host.file("/opt/v/libnarrow.so.1.0", narrow);
    host.link("/opt/v/libnarrow.so.1", "libnarrow.so.1.0");
    std::vector<std::pair<std::string, std::string>> mounts;
    for (const char* name :
         {"libdeep.so.12.3.4", "libown.so.3", "libnone.so.5.1", "libtext.so.9.1", "libnarrow.so.1.0"})
        mounts.emplace_back(cat("/opt/v/", name), cat("/usr/lib64/", name));
    FakeImage image;
    Libraries found = libraries_of(container_edits_of(edits_with("/usr/lib64/", mounts), host, image, "CDI"));
    CHECK(found.names ==
          "libdeep.so.12=/usr/lib64/libdeep.so.12 libdeep.so.12.3.4=/usr/lib64/libdeep.so.12.3.4 "
          "libnarrow.so.1(32)=/usr/lib64/libnarrow.so.1 libnarrow.so.1.0(32)=/usr/lib64/libnarrow.so.1.0 "
          "libnone.so.5.1=/usr/lib64/libnone.so.5.1 libown.so.3=/usr/lib64/libown.so.3 "
          "libtext.so.9=/usr/lib64/libtext.so.9 libtext.so.9.1=/usr/lib64/libtext.so.9.1 ");
    CHECK(found.links ==
          "/usr/lib64/libdeep.so.12->libdeep.so.12.3.4 /usr/lib64/libtext.so.9->libtext.so.9.1 "
          "/usr/lib64/libnarrow.so.1->libnarrow.so.1.0 ");
}

TEST_CASE("cdi: libraries of a folder that is mounted, or of the image's, and links are found", "[hooks][cdi]") {
    FakeHost host;
    host.file("/opt/v/lib/liba.so.1.9", library("liba.so.1"));
    host.file("/opt/v/lib/liba.so.1.10", library("liba.so.1"));
    host.file("/opt/v/lib/libb.so.2.0", library("libb.so.2"));
    host.link("/opt/v/lib/libb.so.2", "libb.so.2.0");
    host.link("/opt/v/lib/libb.so", "libb.so.2");
    host.file("/opt/v/lib/libscript.so", "GROUP ( libb.so.2 )");
    FakeImage image({{"/opt/own/libi.so.7.1", library("libi.so.7")}, {"/usr/lib64/libj.so.1.1", library("libj.so.1")}});
    CdiEdits edits = edits_with(
        "/opt/v/lib", {{"/opt/v", "/opt/v"}, {"/opt/v/lib/libb.so.2.0", "/usr/lib64/libc.so.2.0"}});
    edits.library_folders.insert(edits.library_folders.end(), {"/opt/own", "/usr/lib64", "/none"});
    edits.links = {{"/usr/lib64/libc.so", "libb.so.2"}, {"/usr/lib64/liba.so.1", "/opt/v/lib/liba.so.1.10"},
                   {"/usr/lib64/libgone.so", "libgone.so.1"}};
    Libraries found = libraries_of(container_edits_of(edits, host, image, "CDI"));
    CHECK(found.names ==
          "libi.so.7=/opt/own/libi.so.7.1 liba.so.1=/opt/v/lib/liba.so.1.10 libb.so=/opt/v/lib/libb.so "
          "libb.so.2=/opt/v/lib/libb.so.2 liba.so.1=/usr/lib64/liba.so.1 libb.so.2=/usr/lib64/libb.so.2 "
          "libc.so=/usr/lib64/libc.so libc.so.2.0=/usr/lib64/libc.so.2.0 ");
    CHECK(found.links == "/usr/lib64/libb.so.2->libc.so.2.0 ");
    // musl looks into folders, of which each is named.
    FakeImage alpine(std::vector<ImageFile>{{"/etc/alpine-release", "3.20\n"}});
    std::string folders;
    for (const plan::Edit& edit : container_edits_of(edits, host, alpine, "CDI").edits)
        if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action)) folders += loader->folder + " ";
    CHECK(folders == "/opt/v/lib /usr/lib64 ");
}

TEST_CASE("cdi: ldconfig as a hook looks where ldconfig looks", "[hooks][cdi]") {
    CdiSpec spec = parse_cdi(small_spec(R"({"hooks":[{"hookName":"startContainer","path":"/sbin/ldconfig.real",)"
                                        R"("args":["ldconfig.real","/opt/v/lib"]}]})"),
                             false, "x.json");
    const std::vector<std::string>& folders = spec.devices.at("x").library_folders;
    for (const char* folder : {"/usr/lib", "/usr/lib64", "/usr/lib/" MACHINE_TRIPLET, "/opt/v/lib"})
        CHECK(std::ranges::find(folders, folder) != folders.end());
    CHECK_THAT(parse_cdi(small_spec(R"({"hooks":[{"path":"/sbin/ldconfig","args":["ldconfig","-p"]}]})"), false, "x")
                   .refused.at("x"),
               Catch::Contains("the hook /sbin/ldconfig -p is none"));
}

TEST_CASE("cdi: a family's own devices need no specification of the node", "[hooks][cdi]") {
    FakeHost host;
    eight(host, false);
    plan::Site site;
    std::vector<std::string> job = {"BERTH_DEVICES=nvidia.com/gpu=2, a.com/b=x"};
    const DeviceMaker& nvidia = *device_makers()[0];
    auto asked_for = [&](const std::vector<std::string>& image, const std::vector<std::string>& of_job) {
        auto seen = with_native_devices(nvidia, host, site, image, of_job);
        return seen ? value_in(*seen, "NVIDIA_VISIBLE_DEVICES") : "none";
    };
    CHECK(asked_for({}, job) == "2");
    CHECK(asked_for({"NVIDIA_VISIBLE_DEVICES=void"}, job) == "2");
    CHECK(asked_for({"NVIDIA_VISIBLE_DEVICES=all"}, job) == "all,2");
    CHECK(asked_for({}, {job[0], "NVIDIA_VISIBLE_DEVICES=1"}) == "1,2");
    CHECK(asked_for({}, {"BERTH_DEVICES=a.com/b=x"}) == "none");
    CHECK(is_native(host, site, "nvidia.com/gpu=all", job));
    CHECK_FALSE(is_native(host, site, "nvidia.com/gpu", job));
    CHECK_FALSE(is_native(host, site, "a.com/b=x", job));
    FakeImage image;
    CHECK(nodes_text(targets_below(asked(host, image, {}, with_native_devices(nvidia, host, site, {}, job).value()),
                                   "/dev")) ==
          nodes_text(targets_below(asked(host, image, {"NVIDIA_VISIBLE_DEVICES=2"}, {}), "/dev")));
    site.devices.disabled = {"nvidia"};
    CHECK_FALSE(is_native(host, site, "nvidia.com/gpu=all", job));
    site.devices.disabled.clear();
    // With one, it is the specification's word that counts, even where it cannot be read.
    host.file("/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\ndevices: [");
    CHECK_FALSE(is_native(host, site, "nvidia.com/gpu=all", job));
    CHECK(asked_for({}, job) == "none");
    // On a node without a driver, too, the wish is one that no specification has.
    FakeHost bare;
    CHECK_FALSE(is_native(bare, site, "nvidia.com/gpu=all", job));
}
