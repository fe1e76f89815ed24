#include <catch2/catch.hpp>

#include "hooks/rdma.hh"
#include "runtime/base/error.hh"
#include "tests/fixtures/fake_host.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

/// Four adapters whose verbs devices are numbered otherwise.
void four(FakeHost& host) {
    const unsigned verbs[] = {2, 0, 1, 3};
    for (unsigned i = 0; i < 4; ++i) host.verbs(verbs[i], cat("mlx5_", i), cat("0000:", i + 1, "a:00.0"));
    host.file("/sys/class/infiniband_mad/umad1/ibdev", "mlx5_0\n");
    host.node("/dev/infiniband/umad1", 231, 1);
    host.node("/dev/infiniband/rdma_cm", 10, 58);
}

std::string targets(const plan::Additions& additions) {
    std::string out;
    for (const plan::Edit& edit : additions.edits)
        if (const auto* mount = std::get_if<plan::Mount>(&edit.action)) out += (out.empty() ? "" : " ") + mount->target;
    return out;
}

std::string given(const FakeHost& host, const std::vector<std::string>& job) {
    FakeImage image;
    try {
        return targets(rdma_hook(host, image, rdma_request({}, job)));
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

TEST_CASE("rdma: adapters are joined by what sysfs says of them", "[hooks][rdma]") {
    FakeHost host;
    four(host);
    const std::string start = "/dev/infiniband/";
    CHECK(given(host, {}) == "");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=void"}) == "");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=none"}) == "");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=all"}) ==
          start + "uverbs2 " + start + "umad1 " + start + "uverbs0 " + start + "uverbs1 " + start + "uverbs3 " + start + "rdma_cm");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=0,3"}) == start + "uverbs2 " + start + "umad1 " + start + "uverbs3 " + start + "rdma_cm");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=mlx5_1,uverbs0,0000:2A:00.0"}) == start + "uverbs0 " + start + "rdma_cm");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=4"}) == "MELLANOX_VISIBLE_DEVICES: 4 is no adapter: this node has 4, counted from 0");
    CHECK_THAT(given(host, {"MELLANOX_VISIBLE_DEVICES=mlx5_9"}), Catch::Contains("mlx5_9 is no adapter of this node"));
    host.deny("/dev/infiniband/uverbs0");
    CHECK(given(host, {"MELLANOX_VISIBLE_DEVICES=all"}) == start + "uverbs2 " + start + "umad1 " + start + "uverbs1 " + start + "uverbs3 " + start + "rdma_cm");
    CHECK_THAT(given(host, {"MELLANOX_VISIBLE_DEVICES=mlx5_1"}), Catch::Contains("(/dev/infiniband/uverbs0) may not be opened by this step"));
}

TEST_CASE("rdma: EFA, Slingshot and shared memory devices", "[hooks][rdma]") {
    FakeHost efa;
    efa.verbs(0, "rdmap0s6", "0000:00:06.0", "efa");
    efa.node("/dev/infiniband/rdma_cm", 10, 58);
    CHECK(given(efa, {"MELLANOX_VISIBLE_DEVICES=all"}) == "/dev/infiniband/uverbs0 /dev/infiniband/rdma_cm");
    FakeHost slingshot;
    for (const char* path : {"/dev/cxi0", "/dev/cxi1", "/dev/xpmem", "/dev/knem"}) slingshot.node(path, 240, 0);
    CHECK(given(slingshot, {"MELLANOX_VISIBLE_DEVICES=all"}) == "/dev/cxi0 /dev/cxi1 /dev/knem /dev/xpmem");
    FakeHost bare;
    CHECK(given(bare, {"MELLANOX_VISIBLE_DEVICES=all"}) == "");
}

TEST_CASE("rdma: a topology of NCCL, little memory, and what an image may not say", "[hooks][rdma]") {
    FakeHost host;
    four(host);
    host.file("/shared/topo.xml", "<system/>");
    FakeImage image;
    auto hook = [&](const std::vector<std::string>& of_image, const std::vector<std::string>& job) {
        return rdma_hook(host, image, rdma_request(of_image, job));
    };
    CHECK_THAT(targets(hook({}, {"MELLANOX_VISIBLE_DEVICES=0", "NCCL_TOPO_FILE=/shared/topo.xml"})), Catch::EndsWith(" /shared/topo.xml"));
    CHECK_THAT(targets(hook({"MELLANOX_VISIBLE_DEVICES=0", "NCCL_TOPO_FILE=/shared/topo.xml"}, {})), !Catch::Contains("topo.xml"));
    CHECK(hook({}, {"MELLANOX_VISIBLE_DEVICES=0", "NCCL_TOPO_FILE=/none"}).warnings.size() == 1);
    CHECK(hook({}, {"MELLANOX_VISIBLE_DEVICES=0", "SLURM_RLIMIT_MEMLOCK=32768"}).warnings.size() == 1);
    CHECK(hook({}, {"MELLANOX_VISIBLE_DEVICES=0", "SLURM_RLIMIT_MEMLOCK=18446744073709551615"}).warnings.empty());
}

TEST_CASE("rdma: the node's libraries, all or nothing", "[hooks][rdma]") {
    FakeHost host;
    four(host);
    FakeImage image;
    RdmaRequest request = rdma_request({}, {"MELLANOX_VISIBLE_DEVICES=1"});
    request.userspace = true;
    CHECK(rdma_hook(host, image, request).warnings.size() == 1);
    const std::string folder = "/usr/lib/x86_64-linux-gnu/";
    host.file(folder + "libibverbs.so.1.14.44", "x");
    host.link(folder + "libibverbs.so.1", "libibverbs.so.1.14.44");
    host.file(folder + "libibverbs/libmlx5-rdmav34.so", "x");
    host.file("/etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
    plan::Additions whole = rdma_hook(host, image, request);
    CHECK(whole.warnings.empty());
    CHECK(targets(whole) == "/dev/infiniband/uverbs0 /dev/infiniband/rdma_cm /usr/lib64/libibverbs.so.1.14.44 /usr/lib64/libibverbs /etc/libibverbs.d");
}
