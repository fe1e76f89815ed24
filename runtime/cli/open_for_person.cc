#include "runtime/cli/open_for_person.hh"

#include <cstdio>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::cli {

OpenedImage open_for_person(const RunOptions& options, const plan::Caller& caller, const plan::Site& site, StartEvent* event) {
    EndSignals signals;
    PullWatch watch;
    watch.bars = !options.quiet;
    if (!options.quiet) watch.progress = [](const std::string& line) { std::fprintf(stderr, "berth: %s\n", line.c_str()); };
    if (event != nullptr) watch.fetched = [event](const PullResult& result) { event->pulled(result); };
    watch.descriptor = signals.descriptor();
    watch.ready = [&] {
        if (int signal = signals.take()) throw Error(cat("pulling image ", printable(options.request.image, 1024), ": interrupted"), 128 + signal);
    };
    return open_image(options.request.image, caller, site, watch);
}

}  // namespace berth::cli
