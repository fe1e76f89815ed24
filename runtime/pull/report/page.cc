// Reports as pages: HTML with pictures in SVG.
#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/base/text.hh"
#include "runtime/pull/report/text.hh"

namespace berth::pull::report {

namespace {

// Units of the pictures, which are as wide as the page.
constexpr double picture_width = 1000, label_width = 190, time_width = 80, row_height = 22, bar_height = 14;
constexpr double bars_width = picture_width - label_width - time_width;
constexpr double text_drop = 11;  ///< of a text's line below the top of its bar
constexpr size_t keys_in_row = 5;
/// Letters of a label: more would run into the bars.
constexpr size_t label_letters = 24;
constexpr const char* failed_colour = "#c0392b";
constexpr const char* rest_colour = "#d5dde5";
constexpr const char* warm_colour = "#4e79a7";
constexpr const char* cold_colour = "#f28e2b";
/// Of a phase of another release.
constexpr const char* other_colour = "#5c5c5c";

/// A phase has one colour on all pages, and no two of those that take long are alike (report_test.cc compares them).
/// What takes some milliseconds shares one.
struct KnownPhase {
    std::string_view name;
    const char* colour;
    const char* meaning;
};
constexpr const char* quick_colour = "#9aa5b1";
constexpr KnownPhase known_phases[] = {
    {"asking", "#e6c229", "asking the registry which image the tag means"},
    {"waiting", "#8e63b8", "waiting for another process or node that pulls the image"},
    {"pulling", "#4e79a7", "fetching, checking and converting layers"},
    {"merging", "#59a14f", "merging the layers into the image's index"},
    {"image", "#f28e2b", "finding and opening the image, with what of a pull the other phases do not have"},
    {"plan", "#ff9da7", "deciding what the container has, with the search for devices and the site's programs"},
    {"helper", "#6b4226", "starting the process that serves a named container, after an earlier one's end"},
    {"join", "#0b7a75", "joining a named container that runs"},
    {"enter", "#1f2d5a", "changing to the container's root"},
    {"opening", quick_colour, "opening the image in the store"},
    {"reading", quick_colour, "reading the index of a published image"},
    {"namespaces", quick_colour, "making the user and mount namespace"},
    {"sources", quick_colour, "opening what is mounted from the node"},
    {"upper", quick_colour, "making the place for what the container writes"},
    {"server", quick_colour, "starting the file server"},
    {"overlay", quick_colour, "mounting the overlay file system"},
    {"edits", quick_colour, "mounts, devices and files of the container"},
};

/// What comes while the container runs.
constexpr const char* rest = "the rest of the image";

constexpr const char* head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em; overflow-wrap: anywhere }
svg { width: 100%; height: auto; display: block }
table { border-collapse: collapse } td, th { text-align: left; padding: .15em 1em .15em 0; vertical-align: top }
td { overflow-wrap: anywhere } td.number { text-align: right; white-space: nowrap }
@media print { body { margin: 0 } svg { break-inside: avoid } }
</style>
)";

/// As text of HTML, whatever it is.
std::string escaped(const std::string& text, size_t limit = 1024) {
    std::string out;
    for (char c : printable(text, limit)) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string number(double value) {
    char text[48];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start") {
    return cat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">", escaped(text),
               "</text>\n");
}

std::string rectangle(double x, double y, double width, const std::string& colour, const std::string& title) {
    return cat("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(std::max(width, 0.5)),
               "\" height=\"", number(bar_height), "\" fill=\"", colour, "\"><title>", escaped(title),
               "</title></rect>\n");
}

std::string label_of(const std::string& text) {
    std::string shown = printable(text);
    return shown.size() <= label_letters ? shown : shown.substr(0, label_letters - 3) + "...";
}

/// What the colours stand for: rows above the bars.
class Legend {
  public:
    void add(const std::string& name, const std::string& colour) {
        double x = static_cast<double>(count_ % keys_in_row) * (picture_width / keys_in_row);
        text_ += rectangle(x, height(count_), bar_height, colour, name) +
                 text_at(x + bar_height + 6, height(count_) + text_drop, label_of(name));
        ++count_;
    }
    const std::string& text() const { return text_; }
    /// Of all rows.
    double height() const { return height(count_ + keys_in_row - 1); }

  private:
    static double height(size_t count) { return static_cast<double>(count / keys_in_row) * row_height; }

    std::string text_;
    size_t count_ = 0;
};

/// Rows of bars below what their colours stand for. Also by itself, as a file, it is what it is in the page.
std::string picture(const Legend& legend, double height, const std::string& rows, const std::string& label) {
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(picture_width), " ",
               number(legend.height() + height), "\" role=\"img\" aria-label=\"", escaped(label),
               "\" style=\"background:#fff\" font-family=\"ui-monospace, monospace\" font-size=\"12\" fill=\"#222\">\n",
               legend.text(),
               "<g transform=\"translate(0 ", number(legend.height()), ")\">\n", rows, "</g></svg>\n");
}

const KnownPhase* known_phase(std::string_view name) {
    auto found = std::ranges::find_if(known_phases, [&](const KnownPhase& one) { return one.name == name; });
    return found == std::end(known_phases) ? nullptr : found;
}

/// The colours of phases, and which of them were met.
class Palette {
  public:
    std::string of(const std::string& phase) {
        const KnownPhase* known = known_phase(phase);
        std::string colour = known ? known->colour : other_colour;
        if (met_.insert(phase).second) legend_.add(phase, colour);
        return colour;
    }
    const Legend& legend() const { return legend_; }

  private:
    std::set<std::string> met_;
    Legend legend_;
};

/// The row's phases, one behind the other, from the moment at which it began.
std::string row_picture(const Row& row, const StepReport& step, double y, Palette& palette) {
    uint64_t shown = std::max(step.total, step.whole);
    double scale = shown == 0 ? 0 : bars_width / static_cast<double>(shown);
    double x = label_width + static_cast<double>(row.begin - step.begin) * scale;
    std::string out = text_at(0, y + text_drop, label_of(row.node));
    out += text_at(picture_width, y + text_drop, row.error.empty() ? time_text(row.total) : "failed", "end");
    if (!row.error.empty())
        return row.total == 0 ? out
                              : out + rectangle(x, y, static_cast<double>(row.total) * scale, failed_colour, row.error);
    for (const plan::PhaseTime& phase : row.phases) {
        double width = static_cast<double>(phase.microseconds) * scale;
        // What is thinner than a line of the picture would only be its edge.
        if (width >= 0.5)
            out += rectangle(x, y, width, palette.of(phase.name), cat(phase.name, ", ", time_text(phase.microseconds)));
        x += width;
    }
    if (row.whole > row.total)
        out += rectangle(x, y, static_cast<double>(row.whole - row.total) * scale, rest_colour,
                         cat(rest, ", whole after ", time_text(row.whole)));
    return out;
}

std::string step_page(const StepReport& step) {
    size_t shown = std::min(step.rows.size(), nodes_shown);
    std::string out = cat("<h2>Step ", escaped(step.step), ": ", escaped(title_of(step.rows.front())), "</h2>\n<p>",
                          counted(step.rows.size(), "node"), ", ", readiness(step), ".");
    if (step.pole)
        out += cat(" The longest pole is <b>", escaped(step.pole->phase), "</b> on ", escaped(step.pole->node), ": ",
                   time_text(step.pole->microseconds), " of ", time_text(step.pole->of), ".");
    std::string rows;
    Palette palette;
    for (size_t i = 0; i < shown; ++i)
        rows += row_picture(step.rows[i], step, static_cast<double>(i) * row_height, palette);
    Legend legend = palette.legend();
    if (step.whole > 0) legend.add(rest, rest_colour);
    out += cat("</p>\n", picture(legend, static_cast<double>(shown) * row_height, rows,
                                 "the phases of each node, slowest first"));
    if (shown < step.rows.size())
        out += cat("<p>And ", counted(step.rows.size() - shown, "node"), " more, each after at most ",
                   time_text(step.rows[shown].total), ".</p>\n");
    for (const Row& row : step.rows)
        if (!row.error.empty()) out += cat("<p>", escaped(row.node), ": ", escaped(row.error), "</p>\n");
    return out;
}

std::string hours_picture(const SiteReport& report) {
    uint64_t most = 1;
    for (const Hour& hour : report.hours) most = std::max(most, hour.warm + hour.cold + hour.failed);
    Legend legend;
    legend.add("warm", warm_colour);
    legend.add("cold", cold_colour);
    legend.add("failed", failed_colour);
    double scale = bars_width / static_cast<double>(most), y = 0;
    std::string rows;
    for (const Hour& hour : report.hours) {
        double x = label_width;
        rows += text_at(0, y + text_drop, hour_text(hour.begin));
        auto add = [&](uint64_t count, const char* colour, const char* name) {
            double width = static_cast<double>(count) * scale;
            if (count > 0) rows += rectangle(x, y, width, colour, cat(count, " ", name));
            x += width;
        };
        add(hour.warm, warm_colour, "warm");
        add(hour.cold, cold_colour, "cold");
        add(hour.failed, failed_colour, "failed");
        rows += text_at(picture_width, y + text_drop, cat(hour.warm + hour.cold + hour.failed), "end");
        y += row_height;
    }
    return picture(legend, y, rows, "starts by hour");
}

std::string images_table(const SiteReport& report) {
    std::string out =
        "<table><tr><th>image</th><th>starts</th><th>cold</th><th>mean</th><th>slowest</th></tr>\n";
    for (const ImageRow& image : report.images)
        out += cat("<tr><td>", escaped(image.image), "</td><td class=\"number\">", image.starts,
                   "</td><td class=\"number\">", image.cold, "</td><td class=\"number\">", time_text(image.mean),
                   "</td><td class=\"number\">", time_text(image.worst), "</td></tr>\n");
    return out + "</table>\n";
}

std::string failures_table(const SiteReport& report) {
    std::string out = "<table><tr><th>cause</th><th>failures</th></tr>\n";
    for (const auto& [cause, count] : report.failures)
        out += cat("<tr><td>", plan::name_of(cause), "</td><td class=\"number\">", count, "</td></tr>\n");
    return out + "</table>\n";
}

/// What the phases are of which the report has some.
std::string phases_table(const JobReport& report) {
    std::set<std::string_view> met;
    for (const StepReport& step : report.steps)
        for (const Row& row : step.rows)
            for (const plan::PhaseTime& phase : row.phases) met.insert(phase.name);
    std::string out;
    for (const KnownPhase& phase : known_phases)
        if (met.contains(phase.name))
            out += cat("<tr><td>", phase.name, "</td><td>", phase.meaning, "</td></tr>\n");
    return out.empty() ? "" : cat("<h2>Phases</h2>\n<table>", out, "</table>\n");
}

std::string page(const std::string& title, const std::string& body) {
    return cat(head, "<title>", escaped(title), "</title></head>\n<body>\n<h1>", escaped(title), "</h1>\n", body,
               "</body></html>\n");
}

}  // namespace

std::string page_of(const JobReport& report) {
    std::string body;
    for (const StepReport& step : report.steps) body += step_page(step);
    if (body.empty()) body = "<p>No start of a container in these events.</p>\n";
    body += phases_table(report);
    return page(cat("Container starts of job ", report.job), body);
}

std::string page_of(const SiteReport& report) {
    if (report.end == 0) return page("Container starts", "<p>No events.</p>\n");
    std::string body = cat(
        "<p>From ", hour_text(report.begin / 1'000'000), " to ", hour_text(report.end / 1'000'000), " UTC: ",
        counted(report.warm, "warm start"), ", ", report.cold, " cold, ", counted(report.pulls, "pull"), ", ",
        counted(report.imports, "import"), ". Pulled were ", human_bytes(report.bytes), ": ",
        human_bytes(report.peer_bytes), " of it from other nodes, ", human_bytes(report.published_bytes),
        " without converting.</p>\n");
    if (!report.hours.empty())
        body += "<h2>Starts by hour</h2>\n" + hours_picture(report);
    if (!report.images.empty()) body += "<h2>Slowest images, by the mean of their starts</h2>\n" + images_table(report);
    if (!report.failures.empty()) body += "<h2>Failures by cause</h2>\n" + failures_table(report);
    return page("Container starts", body);
}

}  // namespace berth::pull::report
