// `berth pull`: the program berth-pull with the site's settings.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/facts.hh"
#include "runtime/image_source.hh"
#include "runtime/plan/site_file.hh"

namespace berth::cli {

int pull(int argc, char** argv) {
    CLI::App app("Bring an image into the store and print its digest.", "berth pull");
    std::string image, policy;
    app.add_option("--policy", policy, "newer: ask the registry about a tag; missing; always; never")->check(CLI::IsMember({"newer", "missing", "always", "never"}));
    app.add_option("image", image, "REGISTRY/NAME:TAG, NAME@sha256:..., oci:DIR, oci-archive:FILE, docker-archive:FILE, dockerd://NAME or podman://NAME")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    plan::Site site = load_site();
    plan::apply_environment(site, environment_of_this_process());
    if (!policy.empty()) site.pull_policy = policy;
    std::string program = pull_program();
    std::vector<std::string> arguments = pull_arguments(site, open_store(site, caller_of_this_process()).path());
    arguments.push_back(image);
    std::vector<char*> words{program.data()};
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());
    throw SysError("starting " + program);
}

}  // namespace berth::cli
