// `berth rm`: removes named containers.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/container_remove.hh"
#include "runtime/facts.hh"

namespace berth::cli {

int rm(int argc, char** argv) {
    CLI::App app("Remove named containers with all that they wrote.", "berth rm");
    std::vector<std::string> names;
    bool force = false;
    uint32_t job = 0;
    app.add_flag("-f,--force", force, "end those that run");
    app.add_option("--job", job, "the containers are those that the steps of this job share (container_scope \"job\")");
    app.add_option("names", names, "of the containers")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    plan::Site site = site_of_caller();
    plan::Caller caller = caller_of_this_process();
    ContainerFolder folder = containers_of_caller(job);
    int code = 0;
    for (const std::string& name : names) try {
            remove_container(folder, name, force, site, caller);
        } catch (const Error& error) {
            // The others are removed all the same.
            std::fprintf(stderr, "berth: %s\n", error.what());
            code = error.exit_code();
        }
    return code;
}

}  // namespace berth::cli
