#include "runtime/pull/report/text.hh"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "runtime/base/text.hh"

namespace berth::pull::report {

namespace {

constexpr size_t bar_width = 30;
constexpr size_t phases_named = 4;
constexpr uint64_t phase_counts = 1'000;  ///< microseconds; below that a phase is not named

std::string padded(const std::string& text, size_t width) {
    return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string bar(uint64_t value, uint64_t most, char mark) {
    size_t size = most == 0 ? 0 : static_cast<size_t>(value * bar_width / most);
    return std::string(std::max<size_t>(size, value > 0 ? 1 : 0), mark);
}

/// "pulling 11.0 s, merging 310 ms": the longest phases.
std::string longest_phases(const Row& row) {
    std::vector<plan::PhaseTime> phases = row.phases;
    std::stable_sort(phases.begin(), phases.end(), [](const plan::PhaseTime& a, const plan::PhaseTime& b) {
        return a.microseconds > b.microseconds;
    });
    std::string out;
    for (size_t i = 0; i < std::min(phases.size(), phases_named); ++i)
        if (phases[i].microseconds >= phase_counts)
            out += cat(out.empty() ? "" : ", ", printable(phases[i].name), " ", time_text(phases[i].microseconds));
    return out;
}

std::string row_text(const Row& row, size_t width, uint64_t slowest) {
    std::string out = cat("  ", padded(printable(row.node), width), "  ", padded(time_text(row.total), 8), " ");
    if (!row.error.empty()) return cat(out, "failed: ", printable(row.error, 1024), "\n");
    std::string whole = row.whole == 0 ? "" : cat(", whole after ", time_text(row.whole));
    return cat(out, padded(bar(row.total, slowest, '#'), bar_width), " ", longest_phases(row), whole, "\n");
}

std::string step_text(const StepReport& step) {
    size_t cold = 0, width = 4;
    uint64_t bytes = 0, peers = 0, published = 0;
    for (const Row& row : step.rows) {
        cold += row.is_cold ? 1 : 0;
        bytes += row.bytes, peers += row.peer_bytes, published += row.published_bytes;
        width = std::max(width, printable(row.node).size());
    }
    std::string out = cat("step ", printable(step.step), ": ", printable(title_of(step.rows.front()), 1024), " on ",
                          counted(step.rows.size(), "node"), ", ", readiness(step), "\n");
    if (cold > 0)
        out += cat("  ", counted(cold, "node"), " pulled ", human_bytes(bytes), ", ", human_bytes(peers),
                   " of it from other nodes and ", human_bytes(published), " without converting\n");
    if (step.pole)
        out += cat("  longest: ", printable(step.pole->phase), " on ", printable(step.pole->node), ", ",
                   time_text(step.pole->microseconds), " of ", time_text(step.pole->of), "\n");
    for (size_t i = 0; i < std::min(step.rows.size(), nodes_shown); ++i)
        out += row_text(step.rows[i], width, step.pole ? step.pole->of : 0);
    if (step.rows.size() > nodes_shown)
        out += cat("  and ", counted(step.rows.size() - nodes_shown, "node"), " more, each after at most ",
                   time_text(step.rows[nodes_shown].total), "\n");
    return out;
}

}  // namespace

std::string time_text(uint64_t microseconds) {
    char text[48];
    if (microseconds < 1'000'000)
        std::snprintf(text, sizeof text, "%llu ms", static_cast<unsigned long long>((microseconds + 500) / 1000));
    else
        std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(microseconds) / 1e6);
    return text;
}

std::string hour_text(int64_t seconds) {
    std::time_t time = seconds;
    std::tm when{};
    ::gmtime_r(&time, &when);
    char text[64];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &when);
    return text;
}

std::string counted(uint64_t number, const std::string& one) {
    return cat(number, " ", one, number == 1 ? "" : "s");
}

std::string readiness(const StepReport& step) {
    auto failed = static_cast<size_t>(std::count_if(step.rows.begin(), step.rows.end(),
                                                    [](const Row& row) { return !row.error.empty(); }));
    if (failed == step.rows.size()) return "none of them ready";
    std::string who = failed == 0 ? "all" : cat(step.rows.size() - failed, " of them");
    std::string whole = step.whole == 0 ? "" : cat(", whole after ", time_text(step.whole));
    return cat(who, " ready after ", time_text(step.total), whole);
}

std::string text_of(const JobReport& report) {
    if (report.steps.empty()) return cat("job ", printable(report.job), ": no start of a container in these events\n");
    std::string out;
    for (const StepReport& step : report.steps) out += cat(out.empty() ? "" : "\n", step_text(step));
    return out;
}

std::string text_of(const SiteReport& report) {
    if (report.end == 0) return "no events\n";
    uint64_t most = 0;
    for (const Hour& hour : report.hours) most = std::max(most, hour.warm + hour.cold);
    std::string out = cat("from ", hour_text(report.begin / 1'000'000), " to ", hour_text(report.end / 1'000'000),
                          " UTC: ", counted(report.warm, "warm start"), ", ", report.cold, " cold, ",
                          counted(report.pulls, "pull"), ", ", counted(report.imports, "import"), "\n");
    out += cat("pulled ", human_bytes(report.bytes), ": ", human_bytes(report.peer_bytes),
               " of it from other nodes, ", human_bytes(report.published_bytes), " without converting\n");
    if (!report.hours.empty()) out += "\nstarts by hour (= warm, # cold)\n";
    for (const Hour& hour : report.hours)
        out += cat("  ", hour_text(hour.begin), "  ",
                   padded(bar(hour.warm, most, '=') + bar(hour.cold, most, '#'), bar_width + 1), " ", hour.warm,
                   " warm, ", hour.cold, " cold", hour.failed > 0 ? cat(", ", hour.failed, " failed") : "", "\n");
    if (!report.images.empty()) out += "\nslowest images, by the mean of their starts\n";
    for (const ImageRow& image : report.images)
        out += cat("  ", padded(time_text(image.mean), 8), " ", printable(image.image, 1024), ": ",
                   counted(image.starts, "start"), ", ", image.cold, " cold, the slowest ", time_text(image.worst),
                   "\n");
    if (!report.failures.empty()) out += "\nfailures by cause\n";
    for (const auto& [cause, number] : report.failures)
        out += cat("  ", padded(plan::name_of(cause), 12), " ", number, "\n");
    return out;
}

}  // namespace berth::pull::report
