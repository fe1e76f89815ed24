// Brings an image into the store: asks its source what the reference means, fetches what is missing, and publishes it
// whole.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/oci/source/source.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/layers/unproved.hh"
#include "runtime/pull/lazy/early.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/store/store.hh"

namespace berth::pull::nodes {
class Member;
}

namespace berth::pull {

/// Takes a line about what is being done; called from another thread, and no more after the function it was given to.
using Progress = std::function<void(const std::string&)>;

/// Returns the digest under which the store now has the image: that of the reference, or what its tag means (which may
/// be an image index); with `options.machine` always that of the manifest. Throws Error, with nothing published but
/// complete layers.
Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter);
/// What goes on when the image is here and starts.
struct Afterwards {
    std::shared_ptr<nodes::Member> member;  ///< serves the other nodes of the step until it ends; null where none are
    std::optional<Unproved> unproved;       ///< for prove()
    /// The manifest of an image that can be started, but whose layers are to come: for complete_early(), and a further
    /// pull() then.
    std::optional<Digest> early = {};
    nodes::DocumentList documents = {};  ///< for that one: Options::known
    Lock no_removals = {};                  ///< meanwhile
    std::optional<MeetingPlace> place = {};  ///< where nodes meet to bring it together
    /// By whose signature it may run, and by which rule of the policy.
    std::optional<store::SignatureRecord::Admitted> admitted = {};
};

/// The same, together with the other nodes of the step where `options.share` says so, and with `options.prove_later`.
Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter,
            Afterwards& afterwards);
/// The same with the lines that suit a log.
Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options,
                 const Progress& progress);

/// What a start that did not wait for its layers has left: brings them, and makes `image`, with its digest, one of the
/// store. `options` are those of the pull that `started` is of. Throws Error.
Completed finish_early(const store::Store& store, const plan::Reference& image, Options options,
                       const Afterwards& started, Meter& meter);

/// What the image's name means by the policy, without bringing it: the digest of the store, of the registry, or the
/// store's where the registry cannot answer, with a warning. Throws Error.
Digest digest_now(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter);

}  // namespace berth::pull
