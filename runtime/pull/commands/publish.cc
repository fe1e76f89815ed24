// The command line of `berth publish`.
#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/transfer/publish.hh"
#include "runtime/pull/transfer/published.hh"
#include "runtime/pull/transfer/settings.hh"
#include "runtime/pull/transfer/sign.hh"

namespace berth::pull {

namespace {

struct PublishArguments {
    std::string store, site, image, to, key;
    std::vector<std::string> plain_http;
    bool quiet = false;
};

Options options_of(const PublishArguments& arguments, const plan::Reference& reference, const plan::Site& site) {
    std::vector<std::string> environment = environment_of_this_process();
    Options out;
    out.limits = pull_limits(site);
    out.signatures = signature_rules(site);
    out.artifacts = artifact_rules(site, environment);
    out.registry = options_for(reference, "", site, environment);
    // The layers have to be those of the registry itself.
    out.registry.mirrors.clear();
    if (!arguments.to.empty()) out.artifacts.repository = arguments.to;
    if (out.artifacts.repository.empty()) out.artifacts.repository = plan::artifacts_beside_images;
    return out;
}

/// Under the artifact's own name, which a policy's scope for the repository finds.
void sign(plan::Reference artifact, const PublishedImage& published, const std::string& key, const Options& options) {
    artifact.tag = oci::artifact_tag(published.manifest);
    artifact.digest.reset();
    sign_image(artifact, trust::PrivateKey(sys::read_file(key), printable(key, 4096)),
               options.artifacts.registry(artifact));
}

void print(const PublishedImage& published, const std::string& place) {
    std::printf("%s %s: %zu layers in %s%s\n", published.was_there ? "was published" : "published",
                published.manifest.text().c_str(), published.layers, place.c_str(),
                published.left_out == 0 ? "" : cat(", ", published.left_out, " left out").c_str());
}

int publish(const PublishArguments& arguments) {
    plan::Reference reference = plan::parse_reference(arguments.image);
    plan::Site site = site_of(arguments.site, environment_of_this_process());
    for (const std::string& host : arguments.plain_http) site.registries[host].plain_http = true;
    Options options = options_of(arguments, reference, site);
    plan::Reference repository = artifact_repository(options.artifacts, reference).value_or(reference);
    Output output({.quiet = arguments.quiet}, reference.text());
    store::Store store = store::Store::open(arguments.store);
    PublishedImage published = publish_image(store, reference, options, repository, output.meter());
    if (!arguments.key.empty()) sign(repository, published, arguments.key, options);
    output.stop();
    if (!arguments.quiet) print(published, options.artifacts.repository);
    return 0;
}

}  // namespace

int publish_command(int argc, char** argv) {
    PublishArguments arguments;
    CommandLine line("Publish the layers of an image in the form in which Berth runs them.", "berth publish");
    line.option("--store", arguments.store, "directory of the store").required().hidden();
    line.option("--site", arguments.site, "site file, for the settings of registries").hidden();
    line.option("--plain-http", arguments.plain_http, "registry without TLS").hidden();
    line.option("--to", arguments.to, "REGISTRY/NAME where the layers go; share.artifacts, else beside the image");
    line.option("--sign", arguments.key, "private key in PEM that signs what is published");
    line.flag("-q,--quiet", arguments.quiet, "print nothing");
    line.argument("image", arguments.image, "REGISTRY/NAME:TAG or NAME@sha256:...").required();
    if (auto code = line.parse(argc, argv)) return *code;
    return publish(arguments);
}

}  // namespace berth::pull
