// `berth rm`: removes named containers.
#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/host/facts.hh"
#include "runtime/request/names.hh"

namespace berth::cli {

namespace {

bool is_here(const ContainerFolder& folder, const std::string& name) {
    std::vector<std::string> names = folder.names();
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

int rm(int argc, char** argv) {
    CommandLine line("Remove named containers with all that they wrote.", "berth rm");
    std::vector<std::string> names;
    bool force = false;
    uint32_t job = 0;
    line.flag("-f,--force", force, "end running containers");
    line.option("--job", job, "the containers are those that the steps of this job share (container_scope \"job\")");
    line.argument("names", names, "of the containers").required();
    if (auto code = line.parse(argc, argv)) return *code;
    plan::Site site = site_of_caller();
    plan::Caller caller = caller_of_this_process();
    ContainerFolder folder = containers_of_caller(job);
    int code = 0;
    for (const std::string& name : names) try {
            plan::check_container_name(name);
            if (!is_here(folder, name) && forget_created(caller, folder, name)) continue;
            remove_container(folder, name, force, site, caller);
            forget_created(caller, folder, name);
        } catch (const Error& error) {
            // The others are removed all the same.
            std::fprintf(stderr, "berth: %s\n", error.what());
            code = error.exit_code();
        }
    return code;
}

}  // namespace berth::cli
