// The names in a directory.
#pragma once
#include <dirent.h>

#include <memory>
#include <string>

#include "runtime/base/fd.hh"

namespace berth::sys {

struct ListingEnd {
    void operator()(DIR* listing) const { ::closedir(listing); }
};

/// What readdir(3) reads from.
using Listing = std::unique_ptr<DIR, ListingEnd>;

/// Takes the descriptor of a directory that was opened for reading. Null, with errno, when memory lacks.
Listing listing_of(Fd directory);

/// opendir(3), made again when a signal interrupts it. Null, with errno, for every failure.
Listing open_listing(const std::string& path);

}  // namespace berth::sys
