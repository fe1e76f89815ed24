// `berth plan`: prints what `berth run` would do, without doing it.
#include <cstdio>

#include "hooks/cdi_edits.hh"
#include "hooks/devices.hh"
#include "hooks/makers.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/open_for_person.hh"
#include "runtime/cli/plan_json.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/enroot_config.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/host/run_program.hh"
#include "runtime/images/enroot_image.hh"
#include "runtime/images/shell.hh"
#include "runtime/plan/plan_text.hh"

namespace berth::cli {

namespace {

/// Of the first family that adds something and has a name in CDI.
const char* cdi_kind(const std::vector<plan::ContainerEdits>& devices) {
    for (const plan::ContainerEdits& made : devices)
        for (const hooks::DeviceMaker* maker : hooks::device_makers())
            if (maker->vendor == made.vendor && *maker->cdi_kind) return maker->cdi_kind;
    return hooks::device_makers()[0]->cdi_kind;
}

/// berth-pull writes it, since it has JSON.
int print_cdi(const std::vector<plan::ContainerEdits>& devices) {
    hooks::CdiEdits edits;
    for (const plan::ContainerEdits& made : devices) edits.append(hooks::cdi_edits_of(made));
    constexpr auto patience = std::chrono::seconds(10);
    ProgramAnswer answer = run_program(pull_program(), {"cdi", "--write", cdi_kind(devices)},
                                       hooks::lines_of(edits, "hooks"), patience);
    if (answer.code != 0) throw Error(cat("writing the CDI specification: ", why_it_failed(answer, patience)));
    std::fputs(answer.output.c_str(), stdout);
    return 0;
}

}  // namespace

int plan(int argc, char** argv) {
    RunOptions options;
    int code = 0;
    if (!parse_run_options("plan", argc, argv, options, code)) return code;
    plan::Site site = load_site();
    plan::Caller caller = caller_of_this_process();
    plan::apply_environment(site, environment_of_this_process());
    for (const std::string& note : add_enroot_config(site, environment_of_this_process()))
        show_note("warning: " + note);
    OpenedImage opened = open_for_person(options, caller, site);
    take_shell(caller, opened.image);
    std::vector<plan::ContainerEdits> devices =
        device_edits(opened.image, site, environment_for(options), show_note);
    add_image_fstab(devices, opened.image, environment_for(options), show_note);
    plan::ImageConfig config = config_at_start(opened.image, environment_for(options));
    plan::Plan decided = plan_here(options.request, caller, {}, site, config, devices);
    if (!options.command.empty() || options.request.entrypoint) decided.command = command_of(options, config);
    if (options.cdi) return print_cdi(devices);
    if (options.json) {
        std::fputs(plan_json(decided, text_of(opened.digest)).c_str(), stdout);
        return 0;
    }
    std::string text = (opened.digest ? cat("image      ", *opened.digest, "\n") : "") + plan::plan_text(decided);
    std::fputs(text.c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
