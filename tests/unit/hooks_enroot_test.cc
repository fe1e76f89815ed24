// What a hook of Enroot's leaves, as changes of a container.
#include "hooks/site/enroot_hook.hh"
#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::hooks;
using Catch::Contains;

namespace {

plan::ContainerEdits edits_of(const EnrootHookFiles& left, const std::string& before = "A=1\nB=2\n",
                              const plan::Site& site = {}) {
    return enroot_hook_edits(before, left, site, plan::Origin::of_site("hook x"));
}

std::string refusal_of(const EnrootHookFiles& left) {
    try {
        (void)edits_of(left);
        return "taken";
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

TEST_CASE("enroot hook: programs of hooks.folder that are one", "[hooks][enroot]") {
    CHECK(is_enroot_hook("97-vulkan-icd.enroot"));
    for (const char* other : {"97-vulkan-icd.sh", "enroot", "a.enroot.off", ""}) CHECK_FALSE(is_enroot_hook(other));
}

TEST_CASE("enroot hook: it finds the image's variables, but for those of several lines", "[hooks][enroot]") {
    CHECK(enroot_environ({"PATH=/bin", "TEXT=a\nLD_PRELOAD=x", "EMPTY="}) == "PATH=/bin\nEMPTY=\n");
}

TEST_CASE("enroot hook: only what it has changed is set, and a later line counts", "[hooks][enroot]") {
    using Texts = std::vector<std::string>;
    CHECK(edits_of({"A=1\nB=2\n", "", {}}).environment.empty());
    CHECK(edits_of({"A=1\nB=2\nC=3\nB=4\nC=5", "", {}}).environment == Texts{"B=4", "C=5"});
    // Enroot's form: no comments, nothing of its own, no quotes around a value. Nothing is looked up.
    CHECK(edits_of({"A=1\nB=2\n# C=1\n  D=\"x y\"\nENROOT_E=1\nnonsense\nF=${A}\nG=\n", "", {}}).environment ==
          Texts{"D=x y", "F=${A}", "G="});
    // A quoted value of the image's is the same to both.
    CHECK(edits_of({"A='1'\n", "", {}}, "A='1'\n").environment.empty());
    CHECK(refusal_of({"A=1\n", "", {}}) ==
          "hook x: it takes B out of ENROOT_ENVIRON, and hooks can only add and change variables");
}

TEST_CASE("enroot hook: its mounts are as those of --container-mounts, by the site", "[hooks][enroot]") {
    plan::Site site;
    site.defaults.mount_propagation = plan::Propagation::slave;
    plan::ContainerEdits out =
        edits_of({"A=1\nB=2\n",
                  "# a comment\n/usr/share/vulkan /usr/share/vulkan none x-create=dir,bind,ro,nofail\n"
                  "/dev/fuse /dev/fuse none x-create=file,bind,nosuid,private\ntmpfs /fast tmpfs size=1m\n"
                  "none /usr/games none x-detach,nofail\n/sys /sys none rbind\n",
                  {"/made"}},
                 "A=1\nB=2\n", site);
    REQUIRE(out.edits.size() == 5);
    CHECK(std::get<plan::Directory>(out.edits[0].action).path == "/made");
    const auto& bind = std::get<plan::Mount>(out.edits[1].action);
    CHECK((bind.source == "/usr/share/vulkan" && bind.read_only && bind.optional && !bind.recursive));
    CHECK((bind.create == plan::CreateTarget::directory && bind.propagation == plan::Propagation::slave));
    const auto& node = std::get<plan::Mount>(out.edits[2].action);
    CHECK((node.keeps_devices && node.propagation == plan::Propagation::isolated));
    CHECK(std::get<plan::Mount>(out.edits[3].action).kind == plan::Mount::Kind::tmpfs);
    CHECK(std::get<plan::Unmount>(out.edits[4].action).target == "/usr/games");
    for (const plan::Edit& edit : out.edits) {
        CHECK(edit.origin.text() == "hook x");
        CHECK(edit.origin.chooser() == plan::Origin::Chooser::site);
    }
    for (const char* line : {"nfs:/x /x nfs", "/a /proc/1 none bind", "/a / none bind", "relative /x none bind"})
        CHECK_THAT(refusal_of({"A=1\nB=2\n", line, {}}), Contains("hook x: line 1 of its ENROOT_MOUNTS: "));
}
