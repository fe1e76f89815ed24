#include "runtime/telemetry/counters.hh"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

constexpr std::string_view heading = "berth counters 4\n";
constexpr size_t digits = 16;
// Ten thousand files of such numbers can be summed. As microseconds it is thirty years, as bytes a petabyte.
constexpr uint64_t limit = 1'000'000'000'000'000;

/// Every number, in the order of the file.
template <typename AnyCounters, typename Action>
void for_each(AnyCounters& counters, const Action& action) {
    for (auto& number : counters.starts) action(number);
    for (auto& number : counters.failed_starts) action(number);
    for (auto& number : counters.failed_pulls) action(number);
    for (auto& number : counters.failed_imports) action(number);
    action(counters.pulls);
    action(counters.pull_bytes);
    action(counters.peer_bytes);
    action(counters.published_bytes);
    action(counters.refused_pulls);
    action(counters.imports);
    for (auto* histogram : {&counters.start, &counters.image, &counters.plan, &counters.container, &counters.entrypoint,
                            &counters.pull, &counters.import}) {
        for (auto& number : histogram->buckets) action(number);
        action(histogram->sum);
    }
}

template <typename AnyCounters>
auto& failures_of(AnyCounters& counters, Event::Kind of) {
    return of == Event::Kind::pull     ? counters.failed_pulls
           : of == Event::Kind::import ? counters.failed_imports
                                       : counters.failed_starts;
}

Histogram& histogram_of(Counters& counters, const std::string& phase) {
    if (phase == "image") return counters.image;
    if (phase == "plan") return counters.plan;
    return phase == "entrypoint" ? counters.entrypoint : counters.container;
}

void count_start(Counters& counters, const Event& event) {
    ++counters.starts[static_cast<size_t>(event.from)];
    counters.start.add(event.total);
    uint64_t container = 0;
    for (const PhaseTime& phase : event.phases) {
        Histogram& histogram = histogram_of(counters, phase.name);
        // The container's phases are too many to have a histogram each.
        if (&histogram == &counters.container)
            container += phase.microseconds;
        else
            histogram.add(phase.microseconds);
    }
    if (container > 0) counters.container.add(container);
}

}  // namespace

uint64_t Histogram::count() const { return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0}); }

void Histogram::add(uint64_t microseconds) {
    ++buckets[static_cast<size_t>(std::lower_bound(bucket_bounds.begin(), bucket_bounds.end(), microseconds) -
                                  bucket_bounds.begin())];
    sum += microseconds;
}

const std::array<uint64_t, cause_count>& Counters::failures(Event::Kind of) const { return failures_of(*this, of); }

void Counters::count(const Event& event) {
    switch (event.kind) {
        case Event::Kind::start: return count_start(*this, event);
        case Event::Kind::pull:
            ++pulls;
            pull_bytes += event.bytes;
            peer_bytes += event.peer_bytes;
            published_bytes += event.published_bytes;
            refused_pulls += event.refused.empty() ? 0 : 1;
            return pull.add(event.total);
        case Event::Kind::import:
            // What it fetched is in the event of its pull.
            ++imports;
            return import.add(event.total);
        case Event::Kind::failure: ++failures_of(*this, event.of)[static_cast<size_t>(event.cause)];
    }
}

void Counters::add(const Counters& other) {
    std::vector<uint64_t> theirs;
    for_each(other, [&](uint64_t number) { theirs.push_back(number); });
    size_t at = 0;
    for_each(*this, [&](uint64_t& number) { number += theirs[at++]; });
}

std::string counters_text(const Counters& counters) {
    std::string out(heading);
    for_each(counters, [&](uint64_t number) {
        char line[32];
        std::snprintf(line, sizeof line, "%0*llu\n", static_cast<int>(digits), static_cast<unsigned long long>(number));
        out += line;
    });
    return out;
}

size_t counters_size() {
    static const size_t size = counters_text({}).size();
    return size;
}

std::optional<Counters> parse_counters(std::string_view text) {
    if (text.size() != counters_size() || !text.starts_with(heading)) return std::nullopt;
    text.remove_prefix(heading.size());
    Counters out;
    bool good = true;
    for_each(out, [&](uint64_t& number) {
        good = good && text[digits] == '\n' && parse_number(text.substr(0, digits), limit, number);
        text.remove_prefix(digits + 1);
    });
    return good ? std::optional(out) : std::nullopt;
}

}  // namespace berth::plan
