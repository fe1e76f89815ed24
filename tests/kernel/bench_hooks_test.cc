// What the hooks cost a start on a node with eight GPUs and eight adapters. Hidden: run with the argument
// "[bench-hooks]".
#include <algorithm>
#include <iostream>

#include "hooks/devices.hh"
#include "tests/kernel/hooks_view.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int rounds = 50;

/// In a real step, most of what is looked for is on local file systems as well.
void eight_of_each(FakeHost& host) {
    eight(host, true);
    for (unsigned i = 0; i < 8; ++i) host.verbs(7 - i, cat("mlx5_", i), cat("0000:", i, "c:00.0"));
    host.node("/dev/infiniband/rdma_cm", 10, 58);
}

std::string median(std::vector<long> values) {
    std::sort(values.begin(), values.end());
    return std::to_string(values[values.size() / 2]);
}

long microseconds(const std::function<void()>& action) {
    auto before = Clock::now();
    action();
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - before).count();
}

/// Of a start of the container, in a process of its own.
long start_time(const plan::Plan& plan) {
    ContainerImage image = make_image(fill_sample);
    Outcome outcome = as_user([&] {
        StartedContainer container;
        return std::to_string(microseconds([&] { container = start_container(plan, std::move(image), {}); }));
    });
    REQUIRE(outcome.error == "");
    return std::stol(outcome.text);
}

}  // namespace

TEST_CASE("hooks of a start, 8 GPUs and 8 adapters", "[.][bench-hooks]") {
    NEED_CONTAINERS();
    FakeHost host;
    eight_of_each(host);
    plan::ImageConfig config;
    config.env = {"NVIDIA_VISIBLE_DEVICES=all", "MELLANOX_VISIBLE_DEVICES=all"};
    ContainerImage image = make_image(std::vector<Fill>{fill_sample}, {}, config);
    // The stand-in for NVML looks through the folder itself, which is no part of what is measured.
    host.answers = [report = nvml_lines(nvml_of(host))] { return report; };
    std::vector<long> deciding, bare, with;
    plan::ContainerEdits made;
    auto decide = [&] {
        made = together(device_edits(host, image, {}, {"SLURM_JOB_ID=1", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"}, {}));
    };
    for (int round = 0; round < rounds; ++round) {
        deciding.push_back(microseconds(decide));
        bare.push_back(start_time(plan_on(host, {})));
        with.push_back(start_time(plan_on(host, made)));
    }
    REQUIRE(made.devices.size() == 8);
    std::cout << "hooks, microseconds, medians of " << rounds << ": deciding " << median(deciding)
              << ", a start with their " << made.edits.size() << " edits " << median(with) << ", without "
              << median(bare) << "\n";
}
