#include "runtime/mount/fuse/busy_poll.hh"

#include <algorithm>

namespace berth::mount {

void BusyPoll::slept(bool shortly) {
    short_waits_ = shortly ? short_waits_ + 1 : short_waits_ - std::min<uint32_t>(short_waits_, late);
    if (short_waits_ < needed_) return;
    short_waits_ = 0;
    credit_ = first_credit;
}

void BusyPoll::waited(std::chrono::nanoseconds time, bool watched) {
    // The time to wake up is part of what is measured.
    if (!watched) return slept(limit_.count() > 0 && time <= 2 * limit_);
    credit_ = std::min(time <= limit_ ? credit_ + 1 : credit_ - late, most_credit);
    if (credit_ == most_credit) needed_ = first_needed;
    if (credit_ <= 0) needed_ = std::min(needed_ * 2, last_needed);
}

void BusyPoll::was_interrupted() {
    credit_ = 0;
    needed_ = std::max(needed_, needed_among_others);
}

}  // namespace berth::mount
