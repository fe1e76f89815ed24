#include "runtime/cli/start_report.hh"

#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/cli/listing.hh"
#include "runtime/host/enroot_config.hh"
#include "runtime/host/facts.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth::cli {

int start_report(const RunOptions& options,
               const std::function<int(const plan::Site& site, plan::Caller& caller, StartEvent& event)>& start) {
    plan::Site site = site_of_caller();
    for (const std::string& note : add_enroot_config(site, environment_of_this_process()))
        std::fprintf(stderr, "berth: warning: %s\n", note.c_str());
    if (options.image_modes) site.mount.modes = plan::ImageModes::image;
    plan::Caller caller = caller_of_this_process();
    StartEvent event(site, caller, job_name(environment_of_this_process()));
    event.of_image(options.request.image_text());
    if (options.verbose)
        event.show([](const plan::PhaseTime& phase) {
            std::fprintf(stderr, "berth: %-10s %8llu us\n", phase.name.c_str(),
                         static_cast<unsigned long long>(phase.microseconds));
        });
    try {
        return start(site, caller, event);
    } catch (const Error& error) {
        event.failed(error);
        throw;
    }
}

}  // namespace berth::cli
