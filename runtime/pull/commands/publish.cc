// The command line of `berth publish`.
#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/publish/prune.hh"
#include "runtime/pull/publish/publish.hh"
#include "runtime/pull/publish/sign.hh"

namespace berth::pull {

namespace {

struct PublishArguments {
    std::string store, site, image, to, key;
    std::vector<std::string> plain_http;
    bool anew = false;
    bool prune = false;
    bool dry = false;
    bool quiet = false;
};

plan::Site site_for(const PublishArguments& arguments) {
    plan::Site site = site_of(arguments.site, environment_of_this_process());
    for (const std::string& host : arguments.plain_http) site.registries[host].plain_http = true;
    return site;
}

Options options_of(const PublishArguments& arguments, const plan::Reference& reference, const plan::Site& site) {
    Logins logins(environment_of_this_process(), site);
    Options out;
    out.limits = pull_limits(site);
    out.signatures = signature_rules(site);
    out.artifacts = artifact_rules(site, logins);
    out.registry = options_for(reference, "", site, logins);
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
    plan::Site site = site_for(arguments);
    Options options = options_of(arguments, reference, site);
    plan::Reference repository = artifact_repository(options.artifacts, reference).value_or(reference);
    Output output({.quiet = arguments.quiet}, reference.text());
    store::Store store = store::Store::open(arguments.store);
    PublishedImage published = publish_image(store, reference, options, repository, arguments.anew, output.meter());
    if (!arguments.key.empty()) sign(repository, published, arguments.key, options);
    output.stop();
    if (!arguments.quiet) print(published, options.artifacts.repository);
    return 0;
}

/// Without an image, whose own repository would be meant.
plan::Reference repository_to_prune(const PublishArguments& arguments, const plan::Site& site) {
    std::string place = arguments.to.empty() ? site.share.artifacts : arguments.to;
    if (place.empty() || place == plan::artifacts_beside_images)
        throw Error("berth publish --prune: say which repository is meant, by --to REGISTRY/NAME");
    return plan::parse_reference(place);
}

int prune(const PublishArguments& arguments) {
    plan::Site site = site_for(arguments);
    plan::Reference repository = repository_to_prune(arguments, site);
    ArtifactRules rules = artifact_rules(site, Logins(environment_of_this_process(), site));
    Output output({.quiet = arguments.quiet}, repository.text());
    Pruned pruned = prune_published(repository, rules.registry, arguments.dry, output.meter());
    output.stop();
    for (const std::string& line : pruned.left) std::fprintf(stderr, "berth: %s\n", line.c_str());
    if (arguments.quiet) return 0;
    const char* done = arguments.dry ? "would be removed" : "removed";
    for (const std::string& tag : pruned.removed) std::printf("%s: %s\n", done, tag.c_str());
    std::printf("%zu %s, %zu kept\n", pruned.removed.size(), done, pruned.kept + pruned.left.size());
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
    line.flag("--force", arguments.anew, "publish also what is there already");
    auto prune_flag = line.flag("--prune", arguments.prune, "remove what is published of images that have gone");
    line.flag("--dry-run", arguments.dry, "with --prune: only tell").needs(prune_flag);
    line.flag("-q,--quiet", arguments.quiet, "print nothing");
    auto image = line.argument("image", arguments.image, "REGISTRY/NAME:TAG or NAME@sha256:...").excludes(prune_flag);
    if (auto code = line.parse(argc, argv)) return *code;
    if (!arguments.prune && !image.given()) return line.missing("the image");
    return arguments.prune ? prune(arguments) : publish(arguments);
}

}  // namespace berth::pull
