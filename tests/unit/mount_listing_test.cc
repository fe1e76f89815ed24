#include "runtime/mount/fuse/listing.hh"

#include "tests/catch.hh"

using berth::mount::Listing;

namespace {

/// So many listings that a walk goes on.
void walk(Listing& listing) {
    for (uint32_t i = 0; i < Listing::walk; ++i) listing.tells_files(100'000 + i);
}

/// Lists `count` directories from `first` on and, where `look` is set, looks at five files of each that did not tell of
/// them; returns how many told.
uint32_t listed(Listing& listing, uint32_t first, uint32_t count, bool look) {
    uint32_t told = 0;
    for (uint32_t directory = first; directory < first + count; ++directory) {
        bool tells = listing.tells_files(directory);
        told += tells;
        for (int file = 0; look && !tells && file < 5; ++file) listing.looked_up(directory);
    }
    return told;
}

}  // namespace

TEST_CASE("who reads between listings is told of all files", "[mount]") {
    Listing listing;
    for (uint32_t directory = 1; directory < 1000; ++directory) {
        CHECK(listing.tells_files(directory));
        if (directory % 10 == 0) listing.has_read();
    }
}

TEST_CASE("a walk that looks at no files is told of none", "[mount]") {
    Listing listing;
    walk(listing);
    CHECK(listed(listing, 1, 5000, false) == 0);
}

TEST_CASE("a data set is walked through from the first listing on, until it is read", "[mount]") {
    Listing listing(true);
    CHECK(listed(listing, 1, 100, false) == 0);
    listing.has_read();
    CHECK(listed(listing, 101, Listing::walk, false) == Listing::walk);
}

TEST_CASE("who looks at files is told of them from then on", "[mount]") {
    Listing listing;
    walk(listing);
    CHECK(listed(listing, 1, 1000, true) >= 990);
}

TEST_CASE("a walk after one that looked at files is told of none again, soon", "[mount]") {
    Listing listing;
    walk(listing);
    listed(listing, 1, 200, true);
    CHECK(listed(listing, 201, 5000, false) < 300);
    // And the next look is found out as fast as the first.
    CHECK(listed(listing, 6000, 70, true) >= 64);
}

TEST_CASE("lookups that follow no short listing change nothing", "[mount]") {
    Listing listing;
    walk(listing);
    for (int i = 0; i < 100; ++i) listing.looked_up(7);
    CHECK_FALSE(listing.tells_files(7));
    for (uint32_t i = 0; i + 1 < Listing::enough; ++i) listing.looked_up(7);
    CHECK_FALSE(listing.tells_files(8));
    listing.looked_up(8);
    CHECK(listing.tells_files(9));
}
