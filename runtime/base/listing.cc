#include "runtime/base/listing.hh"

#include <fcntl.h>

#include "runtime/base/interrupts.hh"

namespace berth::sys {

Listing listing_of(Fd directory) {
    Listing out(::fdopendir(directory.get()));
    if (out) (void)directory.release();
    return out;
}

Listing open_listing(const std::string& path) {
    Fd directory = try_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    return directory ? listing_of(std::move(directory)) : nullptr;
}

}  // namespace berth::sys
