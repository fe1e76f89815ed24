// How a pull finds the other nodes that want its image.
#pragma once
#include <memory>
#include <string>

#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/share/member.hh"
#include "runtime/pull/transfer/options.hh"

namespace berth::pull {

/// Whether the options name a place where nodes meet: the step's tracker, or a folder (share.rendezvous).
inline bool can_meet(const Options& options) {
    return options.share.has_value() || !options.share_limits.rendezvous.empty();
}

/// This node's part in what the others do about the image `digest`; `what` is the image in messages, `meter` lives
/// longer than what is returned. Throws Error when the others cannot be met.
std::unique_ptr<share::Member> meet_others(const Options& options, const Digest& digest, const std::string& what,
                                           Meter& meter);

}  // namespace berth::pull
