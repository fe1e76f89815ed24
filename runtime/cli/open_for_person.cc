#include "runtime/cli/open_for_person.hh"

#include <signal.h>

#include <cstdio>
#include <ctime>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/host/facts.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

/// While a container is made these signals are blocked.
bool end_signal_waits() {
    sigset_t pending;
    ::sigpending(&pending);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        if (::sigismember(&pending, signal) == 1) return true;
    return false;
}

/// Calls `action` with a watch that shows what goes on, and that a signal ends.
template <typename Action>
auto watched(const RunOptions& options, StartEvent* event, Action action) {
    EndSignals signals;
    PullWatch watch;
    watch.bars = !options.quiet;
    if (!options.quiet)
        watch.progress = options.tell ? options.tell : show_note;
    if (event != nullptr) watch.fetched = [event](const PullResult& result) { event->pulled(result); };
    watch.descriptor = signals.descriptor();
    watch.ready = [&] {
        if (int signal = signals.take())
            throw Error(cat("pulling image ", printable(options.request.image_text(), 1024), ": interrupted"),
                        128 + signal);
    };
    return action(watch);
}

/// What the registry has said of the tag, where that is not too long ago to be asked again.
JobTag last_answer(const plan::Reference& image, const plan::Caller& caller, const plan::Site& site) {
    if (image.kind != plan::Reference::Kind::registry || image.digest || site.store.pull != plan::PullPolicy::newer)
        return {};
    auto known = open_store(site, caller).find_tag(image);
    // A clock that was set back makes nothing fresh.
    int64_t age = known ? int64_t{::time(nullptr)} - known->time : -1;
    return age >= 0 && age < site.store.fresh_for ? JobTag{known->digest, {}} : JobTag{};
}

}  // namespace

OpenedImage open_for_person(const RunOptions& options, const plan::Caller& caller, const plan::Site& site,
                            StartEvent* event, std::optional<Child>* pull) try {
    return watched(options, event, [&](PullWatch& watch) {
        watch.early = pull != nullptr && site.store.start == plan::StartPolicy::early && !options.record;
        if (watch.early) watch.keep = [pull](Child child) { pull->emplace(std::move(child)); };
        watch.over = end_signal_waits;
        const plan::Reference& image = *options.request.image;
        bool stored = image.kind != plan::Reference::Kind::path;
        if (std::string note = stored ? note_on_store(site, caller) : ""; !note.empty() && watch.progress)
            watch.progress(note);
        OpenedImage out = open_image(image, caller, site, watch, last_answer(image, caller, site));
        // Later on the signals are the caller's.
        watch.descriptor = -1;
        watch.ready = {};
        if (auto& coming = out.image.coming; coming.map)
            coming.interrupted = attended_wait(watch, coming.map, site.limits.stall_time);
        return out;
    });
} catch (const Error& error) {
    rethrow_for_image(options, options.request.image->written, error);
}

}  // namespace berth::cli
