// The counters of a user on a node, the file that keeps them, and the forms in which they are shown. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/telemetry/event.hh"

namespace berth::plan {

/// Upper bounds of a histogram's buckets in microseconds; the last bucket has none.
inline constexpr std::array<uint64_t, 14> bucket_bounds = {5'000,      10'000,     25'000,     50'000,     100'000,
                                                           250'000,    500'000,    1'000'000,  2'500'000,  5'000'000,
                                                           10'000'000, 30'000'000, 60'000'000, 300'000'000};

struct Histogram {
    std::array<uint64_t, bucket_bounds.size() + 1> buckets = {};  ///< each counts for itself alone
    uint64_t sum = 0;                                             ///< microseconds
    uint64_t count() const;
    void add(uint64_t microseconds);
};

struct Counters {
    std::array<uint64_t, image_from_count> starts = {};
    std::array<uint64_t, cause_count> failed_starts = {};
    std::array<uint64_t, cause_count> failed_pulls = {};
    std::array<uint64_t, cause_count> failed_imports = {};
    uint64_t pulls = 0;
    uint64_t pull_bytes = 0;
    uint64_t peer_bytes = 0;  ///< those of them that came from other nodes
    uint64_t published_bytes = 0;  ///< those of them that needed no converting
    uint64_t refused_pulls = 0;    ///< pulls that could not use what is published of a layer
    uint64_t imports = 0;
    Histogram start, image, plan, container, entrypoint, pull, import;

    /// Those of a start, a pull or an import.
    const std::array<uint64_t, cause_count>& failures(Event::Kind of) const;

    void count(const Event& event);
    void add(const Counters& other);
};

/// The file of a user: a line that names the form, and a number a line, each as wide as the others, so that it is
/// written over in place.
std::string counters_text(const Counters& counters);
/// Its length in bytes.
size_t counters_size();
/// Nothing for any text that counters_text() cannot have made, and for numbers with which a sum could overflow.
std::optional<Counters> parse_counters(std::string_view text);

/// The text format of Prometheus; `files` is how many of users were summed, `refused` how many were not.
std::string prometheus_text(const Counters& counters, size_t files, size_t refused);
std::string counters_json(const Counters& counters, size_t files, size_t refused);
/// For a person.
std::string counters_table(const Counters& counters);

}  // namespace berth::plan
