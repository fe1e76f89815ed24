#include "runtime/pull/report/model.hh"

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/base/text.hh"

namespace berth::pull::report {

std::string title_of(const Row& row) {
    return !row.image.empty() || row.container.empty() ? row.image : cat("container ", row.container);
}

namespace {

using plan::Event;

constexpr size_t images_shown = 10;
constexpr int64_t microseconds_an_hour = int64_t{3600} * 1'000'000;

bool is_of_job(const Event& event, const std::string& job) {
    return event.job == job || event.job.starts_with(job + ".");
}

int64_t begin_of(const Event& event) { return event.time - static_cast<int64_t>(event.total); }

uint64_t sum_of(const std::vector<plan::PhaseTime>& phases) {
    return std::accumulate(phases.begin(), phases.end(), uint64_t{0},
                           [](uint64_t sum, const plan::PhaseTime& phase) { return sum + phase.microseconds; });
}

/// The pull that was part of a start: of the same step and node, and within its time.
const Event* pull_within(const std::vector<Event>& events, const Event& start) {
    for (const Event& event : events)
        if (event.kind == Event::Kind::pull && event.job == start.job && event.node == start.node &&
            event.time <= start.time && event.time >= begin_of(start))
            return &event;
    return nullptr;
}

/// The pull that a start did not wait for, of the same step and node.
const Event* pull_beside(const std::vector<Event>& events, const Event& start) {
    for (const Event& event : events)
        if (event.kind == Event::Kind::pull && event.job == start.job && event.node == start.node &&
            event.time > start.time && begin_of(event) >= begin_of(start) && begin_of(event) <= start.time)
            return &event;
    return nullptr;
}

std::vector<plan::PhaseTime> with_pull(const std::vector<plan::PhaseTime>& phases, const Event& pull) {
    std::vector<plan::PhaseTime> out;
    for (const plan::PhaseTime& phase : phases) {
        if (phase.name != "image") {
            out.push_back(phase);
            continue;
        }
        out.insert(out.end(), pull.phases.begin(), pull.phases.end());
        uint64_t pulling = sum_of(pull.phases);
        if (phase.microseconds > pulling) out.push_back({"image", phase.microseconds - pulling});
    }
    return out;
}

Row row_of(const std::vector<Event>& events, const Event& event) {
    Row out{event.node, event.image, event.container, begin_of(event), event.total, event.phases};
    if (event.kind == Event::Kind::failure) {
        out.error = event.error;
        return out;
    }
    out.is_cold = event.from == plan::ImageFrom::pull;
    out.bytes = event.bytes;
    out.peer_bytes = event.peer_bytes;
    out.published_bytes = event.published_bytes;
    const Event* pull = pull_within(events, event);
    if (pull) {
        out.phases = with_pull(event.phases, *pull);
    } else if (out.is_cold && (pull = pull_beside(events, event))) {
        out.whole = static_cast<uint64_t>(pull->time - out.begin);
    }
    if (pull) out.bytes = pull->bytes, out.peer_bytes = pull->peer_bytes, out.published_bytes = pull->published_bytes;
    return out;
}

std::optional<LongestPole> pole_of(const Row& row) {
    auto longest = std::max_element(row.phases.begin(), row.phases.end(),
                                    [](const plan::PhaseTime& a, const plan::PhaseTime& b) {
                                        return a.microseconds < b.microseconds;
                                    });
    if (longest == row.phases.end()) return std::nullopt;
    return LongestPole{row.node, longest->name, longest->microseconds, row.total};
}

void finish(StepReport& step) {
    int64_t end = 0, whole = 0;
    step.begin = step.rows.front().begin;
    for (const Row& row : step.rows) {
        step.begin = std::min(step.begin, row.begin);
        end = std::max(end, row.begin + static_cast<int64_t>(row.total));
        if (row.whole > 0) whole = std::max(whole, row.begin + static_cast<int64_t>(row.whole));
    }
    step.total = static_cast<uint64_t>(std::max<int64_t>(end - step.begin, 0));
    step.whole = static_cast<uint64_t>(std::max<int64_t>(whole - step.begin, 0));
    std::stable_sort(step.rows.begin(), step.rows.end(), [](const Row& a, const Row& b) {
        return std::pair(!a.error.empty(), a.total) > std::pair(!b.error.empty(), b.total);
    });
    auto slowest = std::find_if(step.rows.begin(), step.rows.end(), [](const Row& row) { return row.error.empty(); });
    if (slowest != step.rows.end()) step.pole = pole_of(*slowest);
}

void count_start(SiteReport& out, std::map<std::string, ImageRow>& images, Hour& hour, const Event& event) {
    bool is_cold = event.from == plan::ImageFrom::pull;
    ++(is_cold ? out.cold : out.warm);
    ++(is_cold ? hour.cold : hour.warm);
    std::string title = title_of({.node = {}, .image = event.image, .container = event.container});
    ImageRow& image = images[title];
    image.image = title;
    ++image.starts;
    image.cold += is_cold ? 1 : 0;
    image.mean += event.total;  // the sum, as yet
    image.worst = std::max(image.worst, event.total);
}

std::vector<ImageRow> slowest(std::map<std::string, ImageRow>& images) {
    std::vector<ImageRow> out;
    for (auto& [name, row] : images) {
        row.mean /= row.starts;
        out.push_back(row);
    }
    std::stable_sort(out.begin(), out.end(), [](const ImageRow& a, const ImageRow& b) { return a.mean > b.mean; });
    out.resize(std::min(out.size(), images_shown));
    return out;
}

std::vector<std::pair<plan::Cause, uint64_t>> most_frequent(const std::map<plan::Cause, uint64_t>& failures) {
    std::vector<std::pair<plan::Cause, uint64_t>> out(failures.begin(), failures.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return out;
}

}  // namespace

JobReport report_of_job(const std::vector<Event>& events, const std::string& job) {
    JobReport out{job, {}};
    std::vector<Event> mine;
    for (const Event& event : events)
        if (is_of_job(event, job)) mine.push_back(event);
    for (const Event& event : mine) {
        bool is_start = event.kind == Event::Kind::start ||
                        (event.kind == Event::Kind::failure && event.of == Event::Kind::start);
        if (!is_start) continue;
        auto step = std::find_if(out.steps.begin(), out.steps.end(),
                                 [&](const StepReport& one) { return one.step == event.job; });
        if (step == out.steps.end()) step = out.steps.insert(step, StepReport{event.job, 0, 0, 0, {}, {}});
        step->rows.push_back(row_of(mine, event));
    }
    for (StepReport& step : out.steps) finish(step);
    std::stable_sort(out.steps.begin(), out.steps.end(),
                     [](const StepReport& a, const StepReport& b) { return a.begin < b.begin; });
    return out;
}

SiteReport report_of_site(const std::vector<Event>& events) {
    SiteReport out;
    std::map<int64_t, Hour> hours;
    std::map<std::string, ImageRow> images;
    std::map<plan::Cause, uint64_t> failures;
    for (const Event& event : events) {
        out.begin = out.begin == 0 ? event.time : std::min(out.begin, event.time);
        out.end = std::max(out.end, event.time);
        int64_t number = event.time / microseconds_an_hour;
        if (event.kind == Event::Kind::start) count_start(out, images, hours[number], event);
        if (event.kind == Event::Kind::failure) ++hours[number].failed, ++failures[event.cause];
        if (event.kind == Event::Kind::import) ++out.imports;
        if (event.kind != Event::Kind::pull) continue;
        ++out.pulls;
        out.bytes += event.bytes;
        out.peer_bytes += event.peer_bytes;
        out.published_bytes += event.published_bytes;
    }
    for (auto& [number, hour] : hours) {
        hour.begin = number * 3600;
        out.hours.push_back(hour);
    }
    out.images = slowest(images);
    out.failures = most_frequent(failures);
    return out;
}

}  // namespace berth::pull::report
