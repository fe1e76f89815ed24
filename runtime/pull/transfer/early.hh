// Starts that do not wait for the layers of their image (store.start, ADR 0151): a signed artifact has the index and
// the sums of all parts; layers come while the step runs, what it reads first.
#pragma once
#include <optional>
#include <vector>

#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/transfer/options.hh"
#include "runtime/pull/transfer/published.hh"
#include "runtime/pull/transfer/unproved.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// Brings what a start needs into the store's partial/: true when the image with these layers can be started now.
/// False, with a note, when it cannot: an artifact without an index, or one of another release; a registry that sends
/// no parts of blobs; layers in the store that are not those that were published. Throws Error when the store cannot be
/// written to.
bool prepare_early(const store::Store& store, Published& published, const Digest& manifest,
                   const std::vector<Digest>& diff_ids, Meter& meter);

/// Brings the layers of an image that has been prepared, and publishes them in the store: what is waited for comes
/// first. Takes up what another process has left, or waits until one has done it. Returns what has to be proved.
/// Throws Error when something cannot be had: who waits for it has been told.
std::optional<Unproved> complete_early(const store::Store& store, const plan::Reference& image,
                                       const Digest& manifest, const Options& options, Meter& meter);

}  // namespace berth::pull
