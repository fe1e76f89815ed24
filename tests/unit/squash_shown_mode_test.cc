#include "runtime/squash/index/shown_mode.hh"

#include "tests/catch.hh"

using namespace berth;
using namespace berth::squash;

TEST_CASE("modes are shown as Enroot's create makes them, or as they are", "[squash]") {
    struct Row {
        uint32_t image, shown;
    };
    const Row rows[] = {
        {S_IFDIR | 0555, S_IFDIR | 0755},   {S_IFDIR | 0550, S_IFDIR | 0750},   {S_IFDIR | 0000, S_IFDIR | 0700},
        {S_IFDIR | 01777, S_IFDIR | 01777}, {S_IFREG | 0000, S_IFREG | 0400},   {S_IFREG | 04111, S_IFREG | 04511},
        {S_IFREG | 0444, S_IFREG | 0444},   {S_IFREG | 0010, S_IFREG | 0510},   {S_IFREG | 0200, S_IFREG | 0600},
        {S_IFIFO | 0000, S_IFIFO | 0400},   {S_IFLNK | 0000, S_IFLNK | 0000},   {S_IFREG | 0755, S_IFREG | 0755},
    };
    for (const Row& row : rows) {
        CAPTURE(row.image);
        CHECK(shown_mode(row.image, plan::ImageModes::enroot) == row.shown);
        CHECK(shown_mode(row.image, plan::ImageModes::image) == row.image);
    }
}
