// The command line of `berth verify`.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/settings.hh"
#include "runtime/pull/verify.hh"

namespace berth::pull {

namespace {

/// Fetches what is missing of the images; returns the number of those that stay incomplete.
size_t repair(const store::Store& store, const Verified& verified, const plan::Site& site) {
    size_t left = 0;
    Options options;
    options.policy = Policy::missing;
    options.limits = pull_limits(site);
    for (const plan::Reference& reference : verified.incomplete) try {
            if (reference.kind == plan::Reference::Kind::registry && reference.registry.empty()) throw Error(cat("image ", reference.digest, ": no tag says where it came from; pull it again"));
            options.registry = options_for(reference, "", site, environment_of_this_process());
            pull(store, reference, options, [](const std::string& line) { std::fprintf(stderr, "berth: %s\n", line.c_str()); });
            std::printf("repaired %s\n", printable(reference.text(), 1024).c_str());
        } catch (const Error& error) {
            std::printf("%s\n", error.what());
            ++left;
        }
    return left;
}

}  // namespace

int verify_command(int argc, char** argv) {
    CLI::App app("Check every byte of the store.", "berth verify");
    std::string path, site_file;
    std::vector<std::string> plain_http;
    bool mend = false;
    app.add_option("--store", path, "directory of the store")->required();
    app.add_option("--site", site_file, "site file, of which the registries are used");
    app.add_option("--plain-http", plain_http, "registry that is spoken to without TLS")->expected(1)->take_all();
    app.add_flag("--repair", mend, "fetch again what is damaged or missing");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    store::Store store = store::Store::open(path);
    Verified verified = verify(store, [](const std::string&) {});
    for (const std::string& problem : verified.problems) std::printf("%s\n", problem.c_str());
    plan::Site site = site_of(site_file, environment_of_this_process());
    for (const std::string& host : plain_http) site.registries[host].plain_http = true;
    size_t left = mend ? repair(store, verified, site) : verified.problems.size();
    std::printf("%zu images and %zu layers checked, %zu problems%s\n", verified.images, verified.layers, verified.problems.size(),
                mend && !verified.problems.empty() && left == 0 ? ", all repaired" : "");
    return left == 0 ? 0 : 1;
}

}  // namespace berth::pull
