// --overlay of apptainer.
#include <set>

#include "runtime/apptainer/start.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::apptainer;
using Catch::Contains;

namespace {

using Texts = std::vector<std::string>;

const std::set<std::string> files = {"/home/ann/work/a.sqf", "/b.sqf", "/a.sqf"};

Start start(const Given& given) {
    Place place{"/home/ann/work", "/home/ann", [](const std::string& path) {
                    if (files.contains(path)) return Found::file;
                    return path == "/written/upper" ? Found::folder : Found::nothing;
                }};
    return start_of(Action::exec, "x.sif", given, place);
}

/// "KIND SOURCE" of each layer, the lowest first.
Texts layers_of(const Start& start) {
    Texts out;
    for (const plan::Edit& edit : start.overlays.layers) {
        const auto& mount = std::get<plan::Mount>(edit.action);
        out.push_back(cat(mount.kind == plan::Mount::Kind::squashfs ? "squashfs " : "folder ", mount.source));
        CHECK((mount.layer && mount.read_only && mount.target == "/"));
    }
    return out;
}

}  // namespace

TEST_CASE("apptainer: files and folders that are only read lie over the image in the order given", "[apptainer]") {
    Start three = start({{"overlay", {"a.sqf,/b.sqf:ro", "/d:ro"}}});
    CHECK(layers_of(three) == Texts{"squashfs /home/ann/work/a.sqf", "squashfs /b.sqf", "folder /d"});
    CHECK(three.request.writable == false);
    CHECK(three.joins);
    Start mixed = start({{"overlay", {"/a.sqf", "/o", "/written:ro"}}});
    CHECK(layers_of(mixed) == Texts{"squashfs /a.sqf", "folder /written/upper"});
    CHECK(mixed.overlays.writable == "/o");
    CHECK(mixed.request.writable == true);
    CHECK(start({{"overlay", {"/a.sqf"}}, {"writable-tmpfs", {""}}}).request.writable == true);
    CHECK_THROWS_WITH(start({{"overlay", {"/o", "/p"}}}), Contains("/o and /p would both take what is written"));
    CHECK_THROWS_WITH(start({{"overlay", {"/a.sqf"}}, {"writable", {""}}}), Contains("--writable goes with"));
    CHECK(start({{"overlay", {"/o:x"}}}).overlays.writable == "/o:x");
}
