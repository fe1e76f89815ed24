// A user's file of counters, which root sums up, and the report of berth-pull.
#include <cstdlib>

#include "runtime/telemetry/counters.hh"
#include "tests/hostile/target.hh"

namespace {

void run(std::string_view input) {
    using namespace berth::plan;
    parse_phases(input);
    auto counters = parse_counters(input);
    // What is taken is what would have been written.
    if (counters && counters_text(*counters) != input) std::abort();
    if (counters) prometheus_text(*counters, 1, 0);
}

const berth::hostile::Registration registration("counters", run);

}  // namespace
