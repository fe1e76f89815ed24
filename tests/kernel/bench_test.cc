// How long a start takes, by phases. Hidden: run with the argument "[bench]".
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

using Clock = std::chrono::steady_clock;

long microseconds_since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

std::string phases_of(const StartedContainer& container) {
    std::string text;
    for (const plan::PhaseTime& phase : container.phases) text += cat(phase.name, "=", phase.microseconds, "\n");
    return text;
}

long median(std::vector<long> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

TEST_CASE("phases of a start, 3 layers and 10k entries", "[.][bench]") {
    NEED_CONTAINERS();
    bool remap = GENERATE(false, true);
    std::vector<Fill> layers = {fill_sample};
    for (int layer = 0; layer < 3; ++layer)
        layers.push_back([layer](squash::LayerWriter& writer) {
            for (int i = 0; i < 3333; ++i)
                add_file(writer, cat("usr/lib/part", layer, "/dir", i % 50, "/file", i), cat("content ", i));
        });
    plan::Request request;
    request.remap_root = remap;
    plan::Plan plan = plan_for(request);
    std::map<std::string, std::vector<long>> times;
    for (int round = 0; round < 30; ++round) {
        ContainerImage image = make_image(layers);
        Outcome outcome = as_user([&] {
            auto before = Clock::now();
            StartedContainer container = start_container(plan, std::move(image), {});
            std::string text = phases_of(container) + cat("ready=", microseconds_since(before), "\n");
            before = Clock::now();
            run_task(container, [] { return output_of({"/bin/inside"}); });
            return text + cat("first task=", microseconds_since(before), "\n");
        });
        REQUIRE(outcome.error == "");
        for (const std::string& line : split(outcome.text, '\n'))
            if (size_t at = line.find('='); at != std::string::npos)
                times[line.substr(0, at)].push_back(std::stol(line.substr(at + 1)));
    }
    std::cout << (remap ? "remap-root" : "as the user") << ", microseconds, median of 30:";
    for (const auto& [name, values] : times) std::cout << "  " << name << " " << median(values);
    std::cout << "\n";
}
