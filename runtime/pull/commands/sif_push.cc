// The command line of `berth-pull sif-push`, which `apptainer push` starts.
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/export/sif.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/transfer/pull_event.hh"

namespace berth::pull {

namespace {

struct PushArguments {
    std::string site, store, file, image;
    std::vector<std::string> plain_http, annotations;
    OutputOptions output;
};

oci::RegistryOptions registry_options(const PushArguments& arguments, const plan::Reference& reference) {
    std::vector<std::string> environment = environment_of_this_process();
    plan::Site site = site_of(arguments.site, environment);
    oci::RegistryOptions out = options_for(reference, "", site, Logins(environment, site));
    out.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    out.mirrors.clear();
    return out;
}

}  // namespace

int sif_push_command(int argc, char** argv) {
    CommandLine line("Brings a SIF file to a registry.", "berth-pull sif-push");
    PushArguments arguments;
    line.option("--store", arguments.store, "").hidden();
    line.option("--site", arguments.site, "site file, for the settings of registries");
    line.option("--plain-http", arguments.plain_http, "registry without TLS");
    line.option("--annotation", arguments.annotations, "NAME=VALUE of the artifact");
    line.flag("--report", arguments.output.report, "report to a program, by lines on the standard output");
    line.flag("--bars", arguments.output.bars, "show progress on standard error all the same, on a terminal");
    line.argument("file", arguments.file, "the SIF file").required();
    line.argument("image", arguments.image, "REGISTRY/NAME[:TAG]").required();
    if (auto code = line.parse(argc, argv)) return *code;
    plan::Reference reference = plan::parse_reference(arguments.image);
    if (reference.kind != plan::Reference::Kind::registry || reference.digest)
        throw Error(cat("oras://", printable(arguments.image, 1024), ": write oras://REGISTRY/NAME:TAG"));
    Output output(arguments.output, arguments.image);
    try {
        PushedSif pushed = push_sif(arguments.file, reference, arguments.annotations,
                                    registry_options(arguments, reference), output.meter());
        output.done(pushed.digest.text());
        return 0;
    } catch (const Error& problem) {
        output.failed(problem, cause_of_pull(problem));
        return problem.exit_code();
    }
}

}  // namespace berth::pull
