// Images that are small to send and large to hold.

#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/catch.hh"
#include "tests/fixtures/store_scene.hh"

using namespace berth;

TEST_CASE("hostile row 15: the names of all layers of an image are limited together, one layer listed many times too",
          "[pull][hostile]") {
    fixtures::Scene scene(1);
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    store::Store store = store::Store::open(scene.store);
    std::vector<Digest> many(100, scene.base.diff_id);
    std::vector<squash::LayerInfo> layers, more;
    squash::Tree merged = pull::merged_tree(store, many, "image x", layers);
    CHECK(merged.names() == 2);
    CHECK_THROWS_WITH(pull::merged_tree(store, many, "image x", more, 50),
                      "image x: its layers have more than 50 names together; the image is refused");
    CHECK(more.size() < 30);
}

TEST_CASE("hostile row 15: directories of a squashfs file that share one listing are refused", "[squash][hostile]") {
    // 300 directories with the same 200 names, in 2 kB; of 50 kB it would be millions.
    Fd file = sys::open_file("tests/hostile/crashes/squashfs/shared-listings", O_RDONLY);
    squash::LayerInfo info;
    CHECK_THROWS_WITH(squash::read_tree(file.get(), "x.sqsh", 0, info), Catch::Contains("share their listings"));
}
