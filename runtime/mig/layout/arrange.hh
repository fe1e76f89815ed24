// Where the instances that a job asks for go on a GPU.
#pragma once
#include "runtime/mig/layout/profile.hh"
#include "runtime/request/mig.hh"

namespace berth::mig {

/// A layout with what is asked for and nothing else, each instance at a place of its own that its profile allows.
/// Throws Error when the GPU has no such profile, and when there is no such layout: no order of making helps then.
Layout arrange(const Model& model, const plan::MigRequest& request);

}  // namespace berth::mig
