// Which source an image comes from, and under which record the store remembers what it meant.
#pragma once
#include <memory>

#include "runtime/oci/source/source.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// The reference itself for a registry; else a record that changes whenever the source could mean another image. Asks a
/// daemon. Throws Error.
plan::Reference record_of(const plan::Reference& reference, const Options& options, Meter& meter);

/// True when the answer may be remembered under `record`: a file must not have changed since, and its times must be old
/// enough that a change would have shown in them.
bool is_still_true(const plan::Reference& reference, const plan::Reference& record);

/// The source of `reference`, whose record is `record`. Archives that are packed, and those of daemons, are written to
/// the store's tmp folder, without a name.
std::unique_ptr<oci::Source> open_source(const store::Store& store, const plan::Reference& reference,
                                         const plan::Reference& record, const Options& options, Meter& meter);

/// The image in the file `file`, an archive of the kind that archive_kind() says, by its own name. `memory` is
/// limits.pull_memory, for one that is packed. Throws Error.
plan::Reference as_archive(const store::Store& store, plan::Reference file, const std::string& kind, uint64_t memory);

}  // namespace berth::pull
