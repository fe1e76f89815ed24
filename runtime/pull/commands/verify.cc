// The command line of `berth verify`.
#include <cstdio>
#include <filesystem>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/image/daemons.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/verify/verify.hh"
#include "runtime/pull/verify/verify_deep.hh"
#include "runtime/pull/verify/verify_file.hh"

namespace berth::pull {

namespace {

struct VerifyArguments {
    std::string store;
    std::string site;
    std::vector<std::string> plain_http;
    std::vector<std::string> images;
    std::string file;
    bool deep = false;
    bool repair = false;
    bool quiet = false;
};

plan::Site site_for(const VerifyArguments& arguments) {
    plan::Site site = site_of(arguments.site, environment_of_this_process());
    for (const std::string& host : arguments.plain_http) site.registries[host].plain_http = true;
    return site;
}

Options options_of(const plan::Reference& reference, const plan::Site& site) {
    std::vector<std::string> environment = environment_of_this_process();
    Options options;
    options.policy = Policy::missing;
    options.limits = pull_limits(site);
    options.signatures = signature_rules(site);
    Logins logins(environment, site);
    options.artifacts = artifact_rules(site, logins);
    options.registry = options_for(reference, "", site, logins);
    set_daemon(options, reference, environment);
    return options;
}

void repair_image(const store::Store& store, const plan::Reference& reference, const plan::Site& site, bool quiet) {
    Options options = options_of(reference, site);
    Output output({.quiet = quiet}, reference.text());
    pull(store, reference, options, output.meter());
}

/// Fetches what is missing of the images; returns the number of those that stay incomplete.
size_t repair(const store::Store& store, const Verified& verified, const VerifyArguments& arguments) {
    plan::Site site = site_for(arguments);
    size_t left = 0;
    for (const plan::Reference& reference : verified.incomplete) try {
            if (reference.kind == plan::Reference::Kind::registry && reference.registry.empty())
                throw Error(
                    cat("image ", text_of(reference.digest), ": no tag says where it came from; pull it again"));
            repair_image(store, reference, site, arguments.quiet);
            if (!arguments.quiet) std::printf("repaired %s\n", printable(reference.text(), 1024).c_str());
        } catch (const Error& error) {
            std::printf("%s\n", error.what());
            ++left;
        }
    return left;
}

Verified checked(const store::Store& store, const VerifyArguments& arguments) {
    Output output({.quiet = arguments.quiet}, "");
    Verified out = verify(store, output.meter());
    if (!arguments.deep) return out;
    plan::Site site = site_for(arguments);
    auto options = [&](const plan::Reference& image) { return options_of(image, site); };
    verify_deep(store, arguments.images, options, output.meter(), out);
    return out;
}

void print_summary(const Verified& verified, const VerifyArguments& arguments, const char* repaired) {
    std::string proved = arguments.deep ? cat(", ", verified.proved, " layers proved") : "";
    std::printf("%zu images and %zu layers checked%s, %zu problems%s\n", verified.images, verified.layers,
                proved.c_str(), verified.problems.size(), repaired);
}

void print_notes(const Verified& verified, bool deep) {
    for (const auto* lines : {&verified.from_elsewhere, &verified.unchecked})
        for (const std::string& line : *lines) std::printf("%s\n", line.c_str());
    if (deep) return;
    for (const Digest& image : verified.unproved)
        std::printf(
            "image %s: layers of it run on their publisher's signature so far; berth verify --deep proves them\n",
            image.text().c_str());
}

int check_file(const store::Store& store, const VerifyArguments& arguments) {
    plan::Site site = site_for(arguments);
    std::optional<plan::Reference> image;
    if (!arguments.images.empty())
        image = plan::with_absolute_path(plan::parse_reference(arguments.images[0]), std::filesystem::current_path(),
                                 caller_of_this_process().home);
    auto options = [&](const plan::Reference& reference) {
        check_image_here(site, reference);
        return options_of(reference, site);
    };
    Output output({.quiet = arguments.quiet}, arguments.file);
    VerifiedFile verified = verify_file(store, arguments.file, image, options, output.meter());
    if (!verified.problem.empty()) return std::printf("%s\n", verified.problem.c_str()), 1;
    if (!arguments.quiet)
        std::printf("%s: is %s; %llu files and directories, %s compared\n", printable(arguments.file, 4096).c_str(),
                    verified.image.c_str(), static_cast<unsigned long long>(verified.names),
                    human_bytes(verified.bytes).c_str());
    return 0;
}

int work(const VerifyArguments& arguments) {
    store::Store store = store::Store::open(arguments.store);
    if (!arguments.file.empty()) return check_file(store, arguments);
    Verified verified = checked(store, arguments);
    for (const std::string& problem : verified.problems) std::printf("%s\n", problem.c_str());
    if (!arguments.quiet) print_notes(verified, arguments.deep);
    size_t left = arguments.repair ? repair(store, verified, arguments) : verified.problems.size();
    const char* repaired = arguments.repair && !verified.problems.empty() && left == 0 ? ", all repaired" : "";
    if (!arguments.quiet) print_summary(verified, arguments, repaired);
    return left == 0 ? 0 : 1;
}

}  // namespace

int verify_command(int argc, char** argv) {
    CommandLine line("Check every byte of the store.", "berth verify");
    VerifyArguments arguments;
    line.option("--store", arguments.store, "directory of the store").required().hidden();
    line.option("--site", arguments.site, "site file, for the settings of registries").hidden();
    line.option("--plain-http", arguments.plain_http, "registry without TLS").hidden();
    auto deep = line.flag("--deep", arguments.deep, "also prove that the layers are those of their images");
    auto repair = line.flag("--repair", arguments.repair, "fetch again what is damaged or missing");
    line.option("--file", arguments.file, "check that this file of berth import is IMAGE, or what it says")
        .completed_by(Completion::files)
        .excludes(deep)
        .excludes(repair);
    line.flag("-q,--quiet", arguments.quiet, "print nothing but problems");
    line.argument("image", arguments.images,
                  "with --deep: prove the layers of these alone; with --file: what it has to be");
    if (auto code = line.parse(argc, argv)) return *code;
    if (!arguments.images.empty() && !arguments.deep && arguments.file.empty())
        return line.missing("--deep or --file");
    if (!arguments.file.empty() && arguments.images.size() > 1)
        throw Error(cat("verifying ", printable(arguments.file, 4096), ": it can be one image only"));
    return work(arguments);
}

}  // namespace berth::pull
