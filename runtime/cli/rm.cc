// `berth rm`: removes named containers.
#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/host/facts.hh"
#include "runtime/request/names.hh"

namespace berth::cli {

namespace {

/// The folders that a SCOPE of `berth ps --all` means: a path is one of the program enroot, or of steps.
std::vector<ContainerFolder> folders_of(const std::string& scope) {
    ContainerFolder any = containers_of_caller();
    std::vector<std::string> scopes{scope};
    if (scope.starts_with('/')) {
        std::string path = enroot::absolute_data_path(scope, "/");
        scopes = {enroot::scope_of_path(path), enroot::scope_of_path_in_steps(path)};
    }
    std::vector<std::string> there = any.scopes();
    std::vector<ContainerFolder> out;
    for (const std::string& one : scopes)
        if (std::find(there.begin(), there.end(), one) != there.end())
            out.push_back(ContainerFolder::open(any.path(), one));
    if (out.empty())
        throw Error(cat("--scope ", printable(scope, 4096),
                        ": there is no container on this node; berth ps --all lists those that are there"));
    return out;
}

bool is_here(const ContainerFolder& folder, const std::string& name) {
    std::vector<std::string> names = folder.names();
    return std::find(names.begin(), names.end(), name) != names.end();
}

struct Removal {
    plan::Site site;
    plan::Caller caller;
    bool force = false;
    int code = 0;

    void remove(const ContainerFolder& folder, const std::string& name) try {
        plan::check_container_name(name);
        if (!is_here(folder, name) && forget_created(caller, folder, name)) return;
        remove_container(folder, name, force, site, caller);
        forget_created(caller, folder, name);
    } catch (const Error& error) {
        // The others are removed all the same.
        std::fprintf(stderr, "berth: %s\n", error.what());
        code = error.exit_code();
    }
};

/// The folder that has it, or the first one, which says that there is none.
const ContainerFolder& folder_with(const std::vector<ContainerFolder>& folders, const std::string& name) {
    auto found = std::ranges::find_if(folders, [&](const ContainerFolder& one) { return is_here(one, name); });
    return found == folders.end() ? folders.front() : *found;
}

}  // namespace

int rm(int argc, char** argv) {
    CommandLine line("Remove named containers with all that they wrote.", "berth rm");
    std::vector<std::string> names;
    std::string scope;
    bool force = false, all = false;
    uint32_t job = 0;
    line.flag("-f,--force", force, "end running containers");
    line.option("--job", job, "the containers are those that the steps of this job share (container_scope \"job\")")
        .completed_by(Completion::jobs);
    line.option("--scope", scope, "the containers are those that berth ps --all lists with this SCOPE");
    line.flag("--all", all, "with --scope: all of them");
    line.argument("names", names, "of the containers");
    if (auto code = line.parse(argc, argv)) return *code;
    if (job != 0 && !scope.empty()) return line.refused("--job and --scope exclude each other");
    if (all == !names.empty() || (all && scope.empty()))
        return line.refused("write the names of the containers, or --scope SCOPE --all");
    std::vector<ContainerFolder> folders;
    if (scope.empty())
        folders.push_back(containers_of_caller(job));
    else
        folders = folders_of(scope);
    Removal removal{site_of_caller(), caller_of_this_process(), force};
    for (const std::string& name : names) removal.remove(folder_with(folders, name), name);
    if (all)
        for (const ContainerFolder& folder : folders)
            for (const std::string& name : folder.names()) removal.remove(folder, name);
    return removal.code;
}

}  // namespace berth::cli
