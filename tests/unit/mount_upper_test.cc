#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "runtime/base/text.hh"
#include "runtime/mount/rootfs/upper.hh"
#include "runtime/mount/rootfs/upper_layer.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::mount;
using Kind = UpperObject::Kind;

namespace {

void add_file(squash::LayerWriter& writer, const std::string& path, const std::string& content,
              const squash::Attributes& attributes) {
    writer.begin_file(path, attributes);
    writer.append(content);
    writer.end_file();
}

squash::Index sample_image() {
    Fd file(::memfd_create("layer", MFD_CLOEXEC));
    squash::LayerWriter writer(file.get(), nullptr);
    writer.add_directory("proc", {.mode = 0555});
    writer.add_directory("run", {.mode = 0751, .mtime = 77});
    writer.add_directory("etc", {.mode = 0711, .mtime = 1234});
    add_file(writer, "etc/hosts", "x", {.mode = 0640});
    add_file(writer, "etc/passwd", "root:x:0:0::/root:/bin/sh\n", {.mode = 0644});
    writer.add_symlink("etc/localtime", {}, "/usr/share/zone");
    writer.add_symlink("lib", {}, "usr/lib");
    writer.add_directory("usr/lib", {});
    writer.add_directory("marked", {.xattrs = {{"user.a", "1"}}});
    writer.finish();
    std::vector<squash::LayerInfo> layers{{"", squash::Codec::zstd, 0}};
    squash::Tree tree = squash::read_tree(file.get(), "layer", 0, layers[0]);
    return squash::Index::from_bytes(squash::build_index(tree, layers, {}));
}

/// Edits, each with a source of its own where it is a bind.
struct Given {
    std::vector<plan::Edit> edits;
    std::vector<Source> sources;

    Given& add(plan::Action action, const std::string& origin = "system", bool directory = false) {
        edits.push_back({std::move(action), origin, ""});
        sources.push_back({Fd(::open("/dev/null", O_PATH | O_CLOEXEC)), directory});
        return *this;
    }
    Given& mount(const std::string& target, bool directory, const std::string& origin = "system",
                 plan::CreateTarget create = plan::CreateTarget::automatic) {
        plan::Mount mount;
        mount.target = target;
        mount.create = create;
        return add(mount, origin, directory);
    }
};

UpperLayer layer_of(const Given& given, bool saved = false) {
    static const squash::Index image = sample_image();
    auto read = [](const squash::FileData&, const std::string& path) {
        return path == "/etc/passwd" ? std::string("root:x:0:0::/root:/bin/sh\n") : std::string();
    };
    return upper_layer(given.edits, {image, given.sources, saved, read});
}

std::vector<std::string> names(const UpperLayer& layer) {
    std::vector<std::string> out;
    for (const auto& [path, object] : layer.objects) out.push_back(path);
    return out;
}

using Names = std::vector<std::string>;
const plan::AccountLine passwd{"/etc/passwd", "me:x:7:7::/home/me:/bin/sh", 2};

}  // namespace

TEST_CASE("upper: the system's mount points hide what the image has there, and others stand in new directories",
          "[upper]") {
    UpperLayer layer = layer_of(Given()
                                    .mount("/proc", true)
                                    .mount("/etc/hosts", false)
                                    .mount("/etc/new", false)
                                    .mount("/a/b", true, "option --container-mounts"));
    CHECK(names(layer) == Names{"a", "a/b", "etc", "etc/hosts", "etc/new", "proc"});
    CHECK(layer.objects["proc"].opaque);
    CHECK(layer.objects["proc"].image != 0);
    CHECK(!layer.objects["etc"].opaque);
    CHECK(layer.objects["etc"].image != 0);
    CHECK(layer.objects["etc/hosts"].kind == Kind::file);
    CHECK(layer.objects["etc/hosts"].image != 0);
    CHECK(layer.objects["etc/new"].image == 0);
    CHECK(layer.objects["etc/new"].mode == 0644);
    CHECK(layer.objects["a/b"].kind == Kind::directory);
    CHECK(layer.objects["a/b"].image == 0);
    CHECK(layer.done.empty());
}

TEST_CASE(
    "upper: nothing of the image is hidden by what a user mounts, from what is saved, or where something is unmounted",
    "[upper]") {
    CHECK(names(layer_of(Given().mount("/run", true, "option --container-mounts").mount("/etc/hosts", false, "site")))
              .empty());
    CHECK(names(layer_of(Given().mount("/run", true).mount("/etc/hosts", false).mount("/new", true), true)) ==
          Names{"new"});
    CHECK(names(layer_of(Given().mount("/run", true).add(plan::Unmount{"/run"}, "option --container-mounts"))).empty());
}

TEST_CASE("upper: what is of another kind, leads elsewhere or may not be made is left alone", "[upper]") {
    CHECK(names(layer_of(Given().mount("/etc/hosts", true))).empty());
    CHECK(names(layer_of(Given().mount("/etc", false))).empty());
    CHECK(names(layer_of(Given().mount("/etc/localtime", false))).empty());
    CHECK(names(layer_of(Given().mount("/lib/x", false))).empty());
    CHECK(names(layer_of(Given().mount("/marked/x", false))).empty());
    CHECK(names(layer_of(Given().mount("/etc/hosts/x", false))).empty());
    CHECK(names(layer_of(Given().mount("/etc/../x", false).mount("/y/", true).mount("/", true).mount("//z", false)))
              .empty());
    CHECK(names(layer_of(Given().mount("/new", false, "option --container-mounts", plan::CreateTarget::none))).empty());
    CHECK(names(layer_of(Given().mount("/run", true).mount("/run/inside", true))) == Names{"run"});
}

TEST_CASE("upper: the kind of a new mount point is the one asked for", "[upper]") {
    CHECK(layer_of(Given().mount("/n", true, "site", plan::CreateTarget::file)).objects["n"].kind == Kind::file);
    CHECK(layer_of(Given().mount("/n", false, "site", plan::CreateTarget::directory)).objects["n"].kind ==
          Kind::directory);
    plan::Mount gone;
    gone.target = "/gone";
    Given given;
    given.edits.push_back({gone, "site", ""});
    given.sources.emplace_back();
    CHECK(names(layer_of(given)).empty());
}

TEST_CASE("upper: account lines, directories and links are done with", "[upper]") {
    UpperLayer layer = layer_of(Given()
                                    .add(passwd)
                                    .add(plan::AccountLine{"/etc/group", "me:x:7:", 2})
                                    .add(plan::Directory{"/home/me", 0700})
                                    .add(plan::Directory{"/usr/lib", 0755})
                                    .add(plan::Symlink{"/usr/lib/x.so", "x.so.1"}));
    CHECK(layer.done == std::set<size_t>{0, 1, 2, 3, 4});
    CHECK(names(layer) == Names{"etc", "etc/group", "etc/passwd", "home", "home/me", "usr", "usr/lib", "usr/lib/x.so"});
    CHECK(layer.objects["etc/passwd"].content == "root:x:0:0::/root:/bin/sh\nme:x:7:7::/home/me:/bin/sh\n");
    CHECK(layer.objects["etc/passwd"].image != 0);
    CHECK(layer.objects["etc/group"].content == "me:x:7:\n");
    CHECK(layer.objects["home/me"].mode == 0700);
    CHECK(layer.objects["usr/lib/x.so"].content == "x.so.1");
}

TEST_CASE("upper: a link that the image has already is done with, another one is replaced later", "[upper]") {
    UpperLayer same = layer_of(Given().add(plan::Symlink{"/etc/localtime", "/usr/share/zone", true}));
    CHECK(same.done == std::set<size_t>{0});
    CHECK(names(same).empty());
    CHECK(layer_of(Given().add(plan::Symlink{"/etc/localtime", "/usr/share/other", true})).done.empty());
}

TEST_CASE("upper: a line that makes no file is left out where there is none", "[upper]") {
    const plan::AccountLine shadow{"/etc/shadow", "me:*:::::::", 0, true};
    UpperLayer layer = layer_of(Given().add(shadow));
    CHECK(layer.done == std::set<size_t>{0});
    CHECK(names(layer).empty());
    UpperLayer added = layer_of(Given().add(plan::AccountLine{"/etc/passwd", "me:*:::::::", 0, true}));
    CHECK(added.objects["etc/passwd"].content == "root:x:0:0::/root:/bin/sh\nme:*:::::::\n");
}

TEST_CASE("upper: after a mount from inside the container a directory is made there, and not beforehand", "[upper]") {
    plan::Mount inside;
    inside.source = "/usr/lib";
    inside.target = "/etc/inside";
    inside.inside = true;
    Given given;
    given.edits.push_back({inside, "image", ""});
    given.sources.emplace_back();
    CHECK(layer_of(given.add(plan::Directory{"/home/me", 0700})).done.empty());
}

TEST_CASE(
    "upper: an account file, a directory or a link in a mount, in the way of one, or after a directory was mounted "
    "through a link is not touched",
    "[upper]") {
    CHECK(layer_of(Given().mount("/etc", true, "site").add(passwd)).done.empty());
    CHECK(layer_of(Given().add(passwd).mount("/etc/passwd", false, "option --container-mounts")).done.empty());
    CHECK(
        layer_of(Given().mount("/run", true).add(plan::Directory{"/run/user", 0755}).add(plan::Symlink{"/run/x", "y"}))
            .done.empty());
    CHECK(
        layer_of(Given().add(plan::Symlink{"/etc/hosts", "y"}).add(plan::Directory{"/etc/hosts", 0755})).done.empty());
    // Where the image's link leads, only the kernel knows; a file that is mounted there is in nobody's way.
    CHECK(layer_of(Given().mount("/lib", true).add(plan::Directory{"/home", 0755}).add(passwd)).done.empty());
    CHECK(layer_of(Given().mount("/etc/localtime", false).add(plan::Directory{"/home", 0755})).done ==
          std::set<size_t>{1});
    CHECK(layer_of(Given().mount("/d", true, "site").mount("/d/link", true, "site").add(plan::Directory{"/home", 0755}))
              .done.empty());
    CHECK(layer_of(Given().mount("/proc", true).mount("/proc/sub", true).add(plan::Directory{"/home", 0755})).done ==
          std::set<size_t>{2});
}

TEST_CASE("upper: what is written has the image's modes and times, and marks for the overlay", "[upper]") {
    squash::Index image = sample_image();
    fixtures::TempFolder folder;
    mode_t before = ::umask(0);
    UpperLayer layer = layer_of(Given()
                                    .mount("/run", true)
                                    .mount("/etc/hosts", false)
                                    .add(passwd)
                                    .add(plan::Directory{"/home/me", 0700})
                                    .add(plan::Symlink{"/home/link", "me"}));
    Fd upper(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    write_upper(layer, image, plan::ImageModes::image, upper.get());
    ::umask(before);
    auto status = [&](const char* name) {
        struct stat st {};
        REQUIRE(::fstatat(upper.get(), name, &st, AT_SYMLINK_NOFOLLOW) == 0);
        return st;
    };
    CHECK(status("etc").st_mode == (S_IFDIR | 0711));
    CHECK(status("etc").st_mtim.tv_sec == 1234);
    CHECK(status("run").st_mode == (S_IFDIR | 0751));
    CHECK(status("run").st_mtim.tv_sec == 77);
    CHECK(status("etc/hosts").st_mode == (S_IFREG | 0640));
    CHECK(status("etc/hosts").st_size == 0);
    CHECK(status("etc/passwd").st_size == 53);
    CHECK(status("home/me").st_mode == (S_IFDIR | 0700));
    CHECK(S_ISLNK(status("home/link").st_mode));
}
