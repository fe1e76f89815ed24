// How counters are shown: to Prometheus, to programs, to a person.
#include <cstdio>

#include "runtime/base/text.hh"
#include "runtime/telemetry/counters.hh"

namespace berth::plan {

namespace {

std::string seconds_text(uint64_t microseconds) {
    char text[64];
    auto seconds = static_cast<unsigned long long>(microseconds / 1'000'000),
         rest = static_cast<unsigned long long>(microseconds % 1'000'000);
    std::snprintf(text, sizeof text, "%llu.%06llu", seconds, rest);
    return text;
}

/// "0.005": a bound as Prometheus' own libraries write it.
std::string bound_text(uint64_t microseconds) {
    std::string text = seconds_text(microseconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
}

std::string family(const char* name, const char* type, const char* help) {
    return cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

/// `label` is empty or "phase=\"image\"".
std::string histogram_text(const char* name, const std::string& label, const Histogram& histogram) {
    std::string out, alone = label.empty() ? "" : cat("{", label, "}");
    uint64_t so_far = 0;
    for (size_t i = 0; i < histogram.buckets.size(); ++i) {
        so_far += histogram.buckets[i];
        std::string bound = i < bucket_bounds.size() ? bound_text(bucket_bounds[i]) : "+Inf";
        out += cat(name, "_bucket{", label, label.empty() ? "" : ",", "le=\"", bound, "\"} ", so_far, "\n");
    }
    return out +
           cat(name, "_sum", alone, " ", seconds_text(histogram.sum), "\n", name, "_count", alone, " ", so_far, "\n");
}

struct NamedHistogram {
    const char* name;
    Histogram Counters::*member;
};
constexpr NamedHistogram phases[] = {{"image", &Counters::image},
                                     {"plan", &Counters::plan},
                                     {"container", &Counters::container},
                                     {"entrypoint", &Counters::entrypoint}};

struct NamedKind {
    const char* name;
    Event::Kind kind;
};
constexpr NamedKind kinds[] = {
    {"start", Event::Kind::start}, {"pull", Event::Kind::pull}, {"import", Event::Kind::import}};

std::string failures_text(const Counters& counters) {
    std::string out = family("berth_failures_total", "counter", "Starts, pulls and imports that failed.");
    for (size_t i = 0; i < cause_count; ++i)
        for (const NamedKind& of : kinds)
            out += cat("berth_failures_total{of=\"", of.name, "\",cause=\"", name_of(static_cast<Cause>(i)), "\"} ",
                       counters.failures(of.kind)[i], "\n");
    return out;
}

std::string failures_json(const std::array<uint64_t, cause_count>& failures) {
    std::string out;
    for (size_t i = 0; i < cause_count; ++i)
        out += cat(i == 0 ? "" : ",", "\"", name_of(static_cast<Cause>(i)), "\":", failures[i]);
    return cat("{", out, "}");
}

std::string time_json(const char* name, const Histogram& histogram) {
    return cat("\"", name, "\":{\"count\":", histogram.count(), ",\"us\":", histogram.sum, "}");
}

std::string mean_text(const Histogram& histogram) {
    if (histogram.count() == 0) return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms",
                  static_cast<double>(histogram.sum) / static_cast<double>(histogram.count()) / 1000);
    return text;
}

std::string row(const std::string& name, const std::string& value) {
    char text[96];
    std::snprintf(text, sizeof text, "%-28s %14s\n", name.c_str(), value.c_str());
    return text;
}

}  // namespace

std::string prometheus_text(const Counters& counters, size_t files, size_t refused) {
    std::string out = family("berth_starts_total", "counter",
                             "Containers that were started or joined, by where the image came from.");
    for (size_t i = 0; i < image_from_count; ++i)
        out += cat("berth_starts_total{from=\"", name_of(static_cast<ImageFrom>(i)), "\"} ", counters.starts[i], "\n");
    out += failures_text(counters);
    out += cat(family("berth_pulls_total", "counter", "Images that were pulled."), "berth_pulls_total ", counters.pulls,
               "\n");
    out += cat(family("berth_pull_bytes_total", "counter", "Bytes of layers that pulls fetched."),
               "berth_pull_bytes_total ", counters.pull_bytes, "\n");
    out += cat(family("berth_pull_peer_bytes_total", "counter",
                      "Those of them that came from other nodes of the step, not from a registry."),
               "berth_pull_peer_bytes_total ", counters.peer_bytes, "\n");
    out += cat(family("berth_pull_published_bytes_total", "counter",
                      "Those of them of layers that came as they run, and needed no converting."),
               "berth_pull_published_bytes_total ", counters.published_bytes, "\n");
    out += cat(family("berth_pulls_refusing_published_total", "counter",
                      "Pulls that could not use what is published of a layer."),
               "berth_pulls_refusing_published_total ", counters.refused_pulls, "\n");
    out += cat(family("berth_imports_total", "counter", "Images that were written as one file."),
               "berth_imports_total ", counters.imports, "\n");
    out += family("berth_start_seconds", "histogram", "Time from a start's request to its container.") +
           histogram_text("berth_start_seconds", "", counters.start);
    out += family("berth_start_phase_seconds", "histogram", "The parts of that time.");
    for (const NamedHistogram& phase : phases)
        out += histogram_text("berth_start_phase_seconds", cat("phase=\"", phase.name, "\""), counters.*phase.member);
    out += family("berth_pull_seconds", "histogram", "Time of a pull.") +
           histogram_text("berth_pull_seconds", "", counters.pull);
    out += family("berth_import_seconds", "histogram", "Time of an import, its pull included.") +
           histogram_text("berth_import_seconds", "", counters.import);
    out += cat(family("berth_counter_files", "gauge", "Users' files of counters, summed and refused."),
               "berth_counter_files{state=\"summed\"} ", files, "\nberth_counter_files{state=\"refused\"} ", refused,
               "\n");
    return out;
}

std::string counters_json(const Counters& counters, size_t files, size_t refused) {
    std::string out = "{\"starts\":{";
    for (size_t i = 0; i < image_from_count; ++i)
        out += cat(i == 0 ? "" : ",", "\"", name_of(static_cast<ImageFrom>(i)), "\":", counters.starts[i]);
    out += cat("},\"failed_starts\":", failures_json(counters.failed_starts),
               ",\"failed_pulls\":", failures_json(counters.failed_pulls),
               ",\"failed_imports\":", failures_json(counters.failed_imports), ",\"pulls\":", counters.pulls,
               ",\"pull_bytes\":", counters.pull_bytes, ",\"peer_bytes\":", counters.peer_bytes,
               ",\"published_bytes\":", counters.published_bytes, ",\"refused_pulls\":", counters.refused_pulls,
               ",\"imports\":", counters.imports, ",\"times\":{", time_json("start", counters.start));
    for (const NamedHistogram& phase : phases) out += "," + time_json(phase.name, counters.*phase.member);
    return out + cat(",", time_json("pull", counters.pull), ",", time_json("import", counters.import),
                     "},\"files\":", files, ",\"refused\":", refused, "}\n");
}

std::string counters_table(const Counters& counters) {
    std::string out;
    for (size_t i = 0; i < image_from_count; ++i)
        out += row(cat("starts from ", name_of(static_cast<ImageFrom>(i))), std::to_string(counters.starts[i]));
    for (const NamedKind& of : kinds)
        for (size_t i = 0; i < cause_count; ++i)
            if (uint64_t failures = counters.failures(of.kind)[i])
                out += row(cat("failed ", of.name, "s, ", name_of(static_cast<Cause>(i))), std::to_string(failures));
    out += row("pulls", std::to_string(counters.pulls)) + row("pulled", human_bytes(counters.pull_bytes)) +
           row("  from other nodes", human_bytes(counters.peer_bytes)) +
           row("  without converting", human_bytes(counters.published_bytes)) +
           row("imports", std::to_string(counters.imports));
    out += row("mean time of a start", mean_text(counters.start));
    for (const NamedHistogram& phase : phases)
        out += row(cat("  of it: ", phase.name), mean_text(counters.*phase.member));
    return out + row("mean time of a pull", mean_text(counters.pull)) +
           row("mean time of an import", mean_text(counters.import));
}

}  // namespace berth::plan
