// The command line of `berth-pull sif`, which `apptainer pull` and `exec` start for oras://.
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/deadline.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/export/sif.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/transfer/pull_event.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth::pull {

namespace {

struct SifArguments {
    std::string store, site, image, file;
    std::string policy = "newer";
    std::vector<std::string> plain_http;
    bool force = false;
    OutputOptions output;
};

void declare(CommandLine& line, SifArguments& arguments) {
    line.option("--store", arguments.store, "directory of the store").required();
    line.option("--site", arguments.site, "site file, for the settings of registries");
    line.option("--plain-http", arguments.plain_http, "registry without TLS");
    line.option("--policy", arguments.policy, "newer, missing, always or never");
    line.option("-o,--output", arguments.file, "the file to write; without it the file goes to the store");
    line.flag("--force", arguments.force, "replace an existing file");
    line.flag("--of-apptainer", arguments.output.of_apptainer, "").hidden();
    line.flag("-q,--quiet", arguments.output.quiet, "print nothing but the digest");
    line.flag("--report", arguments.output.report, "report to a program, by lines on the standard output");
    line.flag("--bars", arguments.output.bars, "show progress on standard error all the same, on a terminal");
    line.argument("image", arguments.image, "REGISTRY/NAME[:TAG][@sha256:...]").required();
}

Digest brought(const SifArguments& arguments, const plan::Reference& reference, const plan::Site& site,
               Output& output) {
    std::vector<std::string> environment = environment_of_this_process();
    Logins logins(environment, site);
    Options options;
    options.policy = policy_of(arguments.policy);
    options.limits = pull_limits(site);
    options.registry = options_for(reference, "", site, logins);
    options.registry.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    check_image_here(site, reference);
    Deadline deadline(site, output);
    if (!arguments.file.empty())
        return save_sif(reference, arguments.file, arguments.force, options, output.meter());
    return bring_sif(store::Store::open(arguments.store), reference, options, output.meter());
}

}  // namespace

int sif_command(int argc, char** argv) {
    CommandLine line("Brings a SIF file of a registry.", "berth-pull sif");
    SifArguments arguments;
    declare(line, arguments);
    if (auto code = line.parse(argc, argv)) return *code;
    plan::Reference reference = plan::parse_reference(arguments.image);
    if (reference.kind != plan::Reference::Kind::registry)
        throw Error(cat("oras://", printable(arguments.image, 1024), ": write oras://REGISTRY/NAME:TAG"));
    plan::Site site = site_of(arguments.site, environment_of_this_process());
    Output output(arguments.output, arguments.image);
    PullEvent event(site, plan::Event::Kind::pull, "oras://" + arguments.image, output.meter());
    try {
        Digest digest = brought(arguments, reference, site, output);
        output.done(digest.text());
        event.pulled(digest.text());
        return 0;
    } catch (const Error& problem) {
        output.failed(problem, cause_of_pull(problem));
        event.failed(problem);
        return arguments.output.of_apptainer ? exit_of_apptainer : problem.exit_code();
    }
}

}  // namespace berth::pull
