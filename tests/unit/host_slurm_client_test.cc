// What of the node's Slurm a container gets for batch scripts that start steps.

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/host/slurm_client.hh"
#include "runtime/plan/plan.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

namespace {

std::vector<std::string> paths_of(const plan::Job& job) {
    std::vector<std::string> out;
    for (const plan::JobPath& file : job.bind_read_only) out.push_back(file.path);
    return out;
}

bool has(const std::vector<std::string>& all, const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

plan::Site with_client() {
    plan::Site site;
    site.slurm.client_in_container = true;
    return site;
}

}  // namespace

TEST_CASE("Slurm's commands come from where its slurmstepd is installed, and from nowhere else", "[host]") {
    fixtures::TempFolder folder;
    std::string prefix = folder / "slurm-24.11";
    std::filesystem::create_directories(prefix + "/bin");
    std::filesystem::create_directories(prefix + "/lib/slurm");
    for (const char* command : {"srun", "squeue"}) std::ofstream(prefix + "/bin/" + command);
    plan::Job job;
    add_slurm_client(job, with_client(), prefix);
    std::vector<std::string> paths = paths_of(job);
    CHECK(has(paths, prefix + "/bin/srun"));
    CHECK(has(paths, prefix + "/bin/squeue"));
    CHECK(has(paths, prefix + "/lib/slurm"));
    CHECK_FALSE(has(paths, "/usr/bin/scancel"));
    CHECK_FALSE(has(paths, prefix + "/bin/scancel"));

    // A folder without Slurm in it says nothing: what distributions have is looked for.
    for (const std::string& unknown : {std::string(), folder / "other"}) {
        plan::Job usual;
        add_slurm_client(usual, with_client(), unknown);
        CHECK(has(paths_of(usual), "/usr/bin/srun") == std::filesystem::exists("/usr/bin/srun"));
    }
    plan::Job none;
    add_slurm_client(none, plan::Site(), prefix);
    CHECK(none.bind_read_only.empty());
}
