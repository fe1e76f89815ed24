// `berth plan`: prints what `berth run` would do, without doing it.
#include <cstdio>

#include "runtime/cli/commands.hh"
#include "runtime/cli/open_for_person.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/facts.hh"
#include "runtime/plan/plan_text.hh"
#include "runtime/plan/site_file.hh"

namespace berth::cli {

int plan(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    if (!parse_run_options("plan", argc, argv, options, code)) return code;
    plan::Site site = load_site();
    plan::Caller caller = caller_of_this_process();
    plan::apply_environment(site, environment_of_this_process());
    OpenedImage opened = open_for_person(options, caller, site);
    plan::Plan decided = plan::make_plan(options.request, caller, {}, site, host_facts(), opened.image.index.config());
    if (!options.command.empty() || options.entrypoint) decided.command = command_of(options, opened.image.index.config());
    std::string text = (opened.digest.empty() ? "" : "image      " + opened.digest + "\n") + plan::plan_text(decided);
    std::fputs(text.c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
