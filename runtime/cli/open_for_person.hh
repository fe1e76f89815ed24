// Opening an image for somebody at a prompt, or in a script.
#pragma once
#include <optional>

#include "runtime/base/child.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/container/start_event.hh"
#include "runtime/images/open.hh"
#include "runtime/plan/plan.hh"

namespace berth::cli {

/// As open_image, with the progress of a pull on standard error, unless the options say quiet. The signals that end a
/// program leave the terminal clean first; they come out as an Error with the exit code that a shell has for them.
/// `event` records what was pulled. With `pull`, the image may start before its layers are here, by store.start: `pull`
/// has then the program that brings them, and lives as long as the container.
OpenedImage open_for_person(const RunOptions& options, const plan::Caller& caller, const plan::Site& site,
                            StartEvent* event = nullptr, std::optional<Child>* pull = nullptr);

}  // namespace berth::cli
