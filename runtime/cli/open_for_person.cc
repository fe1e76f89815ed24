#include "runtime/cli/open_for_person.hh"

#include <cstdio>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/flat.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

/// Calls `action` with a watch that shows what goes on, and that a signal ends.
template <typename Action>
auto watched(const RunOptions& options, StartEvent* event, Action action) {
    EndSignals signals;
    PullWatch watch;
    watch.bars = !options.quiet;
    if (!options.quiet)
        watch.progress = [](const std::string& line) { std::fprintf(stderr, "berth: %s\n", line.c_str()); };
    if (event != nullptr) watch.fetched = [event](const PullResult& result) { event->pulled(result); };
    watch.descriptor = signals.descriptor();
    watch.ready = [&] {
        if (int signal = signals.take())
            throw Error(cat("pulling image ", printable(options.request.image, 1024), ": interrupted"), 128 + signal);
    };
    return action(watch);
}

}  // namespace

OpenedImage open_for_person(const RunOptions& options, const plan::Caller& caller, const plan::Site& site,
                            StartEvent* event) {
    return watched(options, event, [&](const PullWatch& watch) {
        bool stored = plan::parse_reference(options.request.image).kind != plan::Reference::Kind::path;
        if (std::string note = stored ? note_on_store(site, caller) : ""; !note.empty() && watch.progress)
            watch.progress(note);
        return open_image(options.request.image, caller, site, watch);
    });
}

void use_flat_for_person(OpenedImage& opened, const RunOptions& options, const plan::Plan& plan,
                         const plan::Caller& caller, const plan::Site& site) {
    if (site.mount.engine != plan::MountEngine::squashfuse) return;
    watched(options, nullptr, [&](const PullWatch& watch) {
        use_flat(opened, options.request.image, plan.identity, caller, site, watch);
    });
}

}  // namespace berth::cli
