// The command line of `berth import`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/policy_facts.hh"
#include "runtime/pull/daemons.hh"
#include "runtime/pull/deadline.hh"
#include "runtime/pull/import.hh"
#include "runtime/pull/output.hh"
#include "runtime/pull/pull.hh"
#include "runtime/pull/settings.hh"

namespace berth::pull {

int import_command(int argc, char** argv) {
    CLI::App app("Write an image as one squashfs file.", "berth import");
    std::string path, policy = "newer", file, image, site_file;
    bool quiet = false;
    std::vector<std::string> plain_http;
    ImportOptions options;
    app.add_option("--store", path, "directory of the store")->required()->group("");
    app.add_option("--site", site_file, "site file, of which the registries are used")->group("");
    app.add_option("--plain-http", plain_http, "registry that is spoken to without TLS")->allow_extra_args(false)->group("");
    app.add_option("--policy", policy, "newer, missing, always or never");
    app.add_option("-o,--output", file, "the file to write")->required();
    app.add_flag("--force", options.force, "replace it when it exists");
    app.add_flag("-q,--quiet", quiet, "print nothing but the digest");
    app.add_flag("--plain", options.plain, "do not write /etc/environment and /etc/rc for Enroot");
    app.add_option("image", image, "REGISTRY/NAME:TAG or NAME@sha256:...")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    store::Store store = store::Store::open(path);
    plan::Reference reference = plan::with_absolute_path(plan::parse_reference(image), std::filesystem::current_path());
    std::vector<std::string> environment = environment_of_this_process();
    Options pull_options;
    pull_options.policy = parse_policy(policy);
    plan::Site site = site_of(site_file, environment);
    check_image_here(site, reference);
    pull_options.limits = pull_limits(site);
    pull_options.registry = options_for(reference, "", site, environment);
    pull_options.registry.plain_http.insert(plain_http.begin(), plain_http.end());
    set_daemon(pull_options, reference, environment);
    Output output({.quiet = quiet}, reference.text());
    Deadline deadline(site, output);
    std::string digest = pull(store, reference, pull_options, output.meter());
    import_image(store, digest, reference.text(), file, options, output.meter());
    output.done(digest);
    return 0;
}

}  // namespace berth::pull
