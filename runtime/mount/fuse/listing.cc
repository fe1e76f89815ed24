#include "runtime/mount/fuse/listing.hh"

#include <algorithm>

namespace berth::mount {

bool Listing::tells_files(uint32_t directory) {
    if (unread_.load() < walk) {
        unread_.fetch_add(1);
        return true;
    }
    if (uint32_t left = whole_left_.load(); left > 0) {
        whole_left_.store(left - 1);
        return true;
    }
    listed_briefly_[directory % listed_briefly_.size()].store(directory);
    if (short_ones_.fetch_add(1) + 1 < quiet) return false;
    short_ones_.store(0);
    missed_.store(0);
    run_.store(first_run);
    return false;
}

void Listing::looked_up(uint32_t directory) {
    if (listed_briefly_[directory % listed_briefly_.size()].load() != directory) return;
    if (missed_.fetch_add(1) + 1 < enough) return;
    uint32_t run = run_.load();
    missed_.store(0);
    short_ones_.store(0);
    run_.store(std::min(run * 2, last_run));
    whole_left_.store(run);
    for (auto& number : listed_briefly_) number.store(0);
}

// Most readings find nothing to write, so that the threads do not fight for the cache line.
void Listing::has_read() {
    if (unread_.load() != 0) unread_.store(0);
}

}  // namespace berth::mount
