// `berth rm`: removes named containers.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/container_helper.hh"
#include "runtime/plan/names.hh"

namespace berth::cli {

namespace {

constexpr int end_ms = 10'000;

/// The digest of a container whose record cannot be read stays unknown: its pin goes with gc.
std::string digest_of(const ContainerFolder& folder, const std::string& name) {
    try {
        auto record = folder.find(name);
        // With its lock file, and what a kill may have left.
        if (!record) folder.remove(name);
        if (!record) throw Error(cat("removing container ", name, ": there is none of that name; berth ps lists those that are there"));
        return record->digest;
    } catch (const SysError&) {
        throw;
    } catch (const Error& error) {
        if (std::string_view(error.what()).starts_with("removing")) throw;
        return {};
    }
}

void remove(const ContainerFolder& folder, const std::string& name, bool force) {
    plan::check_container_name(name);
    Fd lock = folder.lock(name);
    std::string digest = digest_of(folder, name);
    if (Fd connection = folder.connect(name)) {
        if (!force) throw Error(cat("removing container ", name, ": it runs; wait for its end, or use --force to end it"));
        ask_to_stop(std::move(connection));
    }
    if (!folder.running_lock(name, end_ms)) throw Error(cat("removing container ", name, ": it does not end; try again"));
    folder.remove(name);
    if (!digest.empty()) store_of_caller().unpin(digest, folder.path_of(name) + "/state");
}

}  // namespace

int rm(int argc, char** argv) {
    CLI::App app("Remove named containers with all that they wrote.", "berth rm");
    std::vector<std::string> names;
    bool force = false;
    app.add_flag("-f,--force", force, "end those that run");
    app.add_option("names", names, "of the containers")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    ContainerFolder folder = containers_of_caller();
    int code = 0;
    for (const std::string& name : names) try {
            remove(folder, name, force);
        } catch (const Error& error) {
            // The others are removed all the same.
            std::fprintf(stderr, "berth: %s\n", error.what());
            code = error.exit_code();
        }
    return code;
}

}  // namespace berth::cli
