// What hooks take from the node, compared with the site's policy: a source that the job named is judged as a mount of
// the user's is, and one that the site named is not.

#include "hooks/makers.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/policy_facts.hh"
#include "tests/catch.hh"
#include "tests/fixtures/cdi_scenes.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/fixtures/rdma_scenes.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;
using Job = std::vector<std::string>;

namespace {

/// Of a site that allows mounts from one folder of the node.
plan::Site site_of(const FakeHost& host, const std::string& more = "") {
    return plan::parse_site(cat("[policy]\nmount_sources = \"", host.path(), "/shared\"\n", more), "berth.conf");
}

/// What a start with these edits is refused for; the folders of this machine are looked at.
std::string refusal(const plan::Site& site, const plan::ContainerEdits& made) {
    return reason_of([&] {
        plan::Plan plan = plan::make_plan({}, {}, {}, site, {}, {}, {made});
        plan.sources = plan::judge_sources(site, plan.edits, real_paths(plan::policy_paths(site, plan.edits)));
    });
}

std::string of_mps(const FakeHost& host, const FakeImage& image, const Job& job) {
    return refusal(site_of(host), asked(host, image, all_gpus, job));
}

std::string of_topology(const FakeHost& host, const FakeImage& image, const std::string& path) {
    RdmaRequest request =
        rdma_request(plan::RdmaMode::asked, {}, {"MELLANOX_VISIBLE_DEVICES=all", "NCCL_TOPO_FILE=" + path});
    return refusal(site_of(host), rdma_hook(host, image, request));
}

}  // namespace

TEST_CASE("policy: CUDA_MPS_PIPE_DIRECTORY must lie where users may mount from, and the usual pipe must be no symlink",
          "[hooks][policy]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    for (const char* folder : {"/shared/mps", "/secret", "/tmp/nvidia-mps"}) host.directory(folder);
    CHECK(of_mps(host, image, {}) == "no error");
    CHECK(of_mps(host, image, {"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"}) == "no error");
    CHECK(of_mps(host, image, {"CUDA_MPS_PIPE_DIRECTORY=/shared/mps"}) == "no error");
    CHECK_THAT(of_mps(host, image, {"CUDA_MPS_PIPE_DIRECTORY=/secret"}),
               Catch::Contains("/secret at /secret (variable CUDA_MPS_PIPE_DIRECTORY): berth.conf:2: "
                               "policy.mount_sources allows mounts from "));
    host.link("/shared/way", "../secret");
    CHECK_THAT(of_mps(host, image, {"CUDA_MPS_PIPE_DIRECTORY=/shared/way"}),
               Catch::Contains(cat("it leads to ", host.path(), "/secret, and ")));
    // Any user can make this symlink.
    host.remove("/tmp/nvidia-mps");
    host.link("/tmp/nvidia-mps", "../secret");
    CHECK_THAT(of_mps(host, image, {}), Catch::Contains(cat("it leads to ", host.path(), "/secret, and ")));
}

TEST_CASE("policy: NCCL_TOPO_FILE must lie where users may mount from", "[hooks][policy]") {
    FakeHost host;
    four_adapters(host);
    FakeImage image;
    host.file("/shared/topo.xml", "<system/>");
    host.file("/secret/topo.xml", "<system/>");
    CHECK(of_topology(host, image, "/shared/topo.xml") == "no error");
    CHECK_THAT(of_topology(host, image, "/secret/topo.xml"),
               Catch::Contains("(variable NCCL_TOPO_FILE): berth.conf:2"));
    host.link("/shared/way.xml", "../secret/topo.xml");
    CHECK_THAT(of_topology(host, image, "/shared/way.xml"), Catch::Contains("it leads to "));
}

TEST_CASE("policy: a program of the site mounts what it likes, by whatever name the job has", "[hooks][policy]") {
    FakeHost host;
    host.directory("/secret");
    FakeImage image;
    CdiEdits edits;
    edits.mounts.push_back({"/secret", "/secret", false, false});
    plan::Site site = site_of(host);
    CHECK(refusal(site, container_edits_of(edits, host, image, plan::Origin::of_site("hook a"))) == "no error");
    CHECK(refusal(site, container_edits_of(edits, host, image, "hook a")) != "no error");
}

TEST_CASE("makers: every key that is locked by default and names a place is known to the maker that looks there",
          "[hooks][policy]") {
    std::set<std::string> known;
    for (const DeviceMaker* maker : device_makers()) known.insert(maker->keys.begin(), maker->keys.end());
    CHECK(joined(known) ==
          "devices.cdi_folders devices.device_root devices.driver_root hooks.folder mpi.dependencies mpi.libraries "
          "mpi.mounts");
    for (const std::string& key : known) {
        plan::Site site;
        CHECK_THROWS_WITH(plan::apply_environment(site, {plan::variable_of(key) + "=/x"}),
                          Catch::Contains("is locked unless"));
    }
}
