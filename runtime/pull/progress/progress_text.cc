#include "runtime/pull/progress/progress_text.hh"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/text.hh"

namespace berth::pull {

namespace {

/// Bars that are shorter say less than the numbers that could stand there.
constexpr size_t shortest_bar = 8;
constexpr size_t label_width = 12;
/// Nobody compares bars across a whole wide screen.
constexpr size_t longest_bar = 60;

unsigned percent(uint64_t received, uint64_t total) {
    return total == 0 ? 0
                      : static_cast<unsigned>(std::min(
                            100.0, std::floor(100.0 * static_cast<double>(received) / static_cast<double>(total))));
}

std::string human_rate(double rate) { return human_bytes(static_cast<uint64_t>(rate)) + "/s"; }

std::string padded(const std::string& text, size_t width) {
    return text + std::string(width - std::min(width, text.size()), ' ');
}

std::string right(const std::string& text, size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
}

/// What a terminal shows in as many columns as it has bytes.
std::string ascii(const std::string& text) {
    std::string out = text;
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

std::string fitting(const std::string& text, unsigned columns) {
    std::string out = ascii(text).substr(0, columns - 1);
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
}

size_t count(const Status& status, LayerState state) {
    return static_cast<size_t>(std::count_if(status.layers.begin(), status.layers.end(),
                                             [&](const LayerStatus& layer) { return layer.state == state; }));
}

bool is_over(const LayerStatus& layer) { return layer.state == LayerState::done || layer.state == LayerState::present; }

/// Bytes, rate and the time that is left; the time that has passed where there are no bytes.
std::string amounts(const Status& status) {
    if (status.total == 0 && status.received == 0) return cat(human_seconds(status.phase_elapsed), " so far");
    if (status.total == 0) return cat(human_bytes(status.received), ", ", human_rate(status.rate));
    std::string out = cat(human_bytes(status.received), " of ", human_bytes(status.total), " (",
                          percent(status.received, status.total), "%), ", human_rate(status.rate));
    if (status.eta) out += cat(", ", human_seconds(*status.eta), " left");
    return out;
}

std::string of_layers(const Status& status) {
    std::string out;
    size_t over = count(status, LayerState::done) + count(status, LayerState::present);
    if (status.layers.size() > 1) out += cat(", ", over, " of ", status.layers.size(), " layers done");
    if (size_t last = count(status, LayerState::converting) + count(status, LayerState::saving); last > 0)
        out += cat(", ", last, " being written");
    for (const LayerStatus& layer : status.layers)
        if (layer.state == LayerState::waiting)
            return cat(out, "; waiting for the layer ", layer.digest, ", which ", layer.owner, " is pulling");
    return out;
}

/// Of all nodes that share what they pull.
std::string of_step(const nodes::StepStatus& step) {
    std::string out = cat(step.ready, " of ", step.nodes, " nodes have it");
    if (!step.last.empty())
        out += cat(", ", step.last, " is last with ", human_bytes(step.last_bytes), " of ",
                   human_bytes(step.last_total), " (", percent(step.last_bytes, step.last_total), "%)");
    return cat(out, "; ", human_bytes(step.registry), " from the registry, ", human_bytes(step.peers),
               " from node to node, ", human_bytes(step.rate), "/s");
}

/// `label`, a bar and `numbers` for `part` of a whole, as far as they fit.
std::string bar_line(const std::string& label, double part, const std::string& numbers,
                     const std::string& short_numbers, unsigned columns) {
    std::string head = padded(label, label_width);
    for (const std::string& tail : {padded(numbers, 36), short_numbers}) {
        // A blank and two brackets before the tail's own blank.
        size_t used = head.size() + 5 + tail.size();
        if (used + shortest_bar > columns) continue;
        size_t width = std::min(columns - used, longest_bar);
        auto filled = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(width));
        std::string bar(filled, '=');
        if (filled > 0 && filled < width) bar.back() = '>';
        return cat(head, " [", padded(bar, width), "] ", tail);
    }
    return columns > label_width + 6 ? cat(head, " ", short_numbers) : short_numbers;
}

double share(uint64_t received, uint64_t total) {
    return total == 0 ? 0 : static_cast<double>(received) / static_cast<double>(total);
}

std::string numbers_of(uint64_t received, uint64_t total, double rate) {
    return cat(right(cat(percent(received, total), "%"), 4), "  ",
               padded(cat(human_bytes(received), " of ", human_bytes(total)), 17), "  ", human_rate(rate));
}

std::string layer_line(const LayerStatus& layer, unsigned columns) {
    std::string label = layer.digest.substr(0, 7) == "sha256:" ? layer.digest.substr(7, label_width)
                                                               : layer.digest.substr(0, label_width);
    std::string word = layer.state == LayerState::present ? "here already" : name_of(layer.state);
    std::string size = human_bytes(layer.total);
    double part = share(layer.received, layer.total);
    switch (layer.state) {
        case LayerState::pulling:
            return bar_line(label, part, numbers_of(layer.received, layer.total, layer.rate),
                            right(cat(percent(layer.received, layer.total), "%"), 4), columns);
        case LayerState::waiting:
            return bar_line(label, part, cat("waiting for ", layer.owner), word, columns);
        default:
            return bar_line(label, layer.state == LayerState::queued ? 0 : 1, cat(padded(word, 12), "  ", size), word,
                            columns);
    }
}

/// Positions of at most `most` layers, in their order: what goes on before what is still to come, and that before what
/// is over.
std::vector<size_t> chosen(const std::vector<LayerStatus>& layers, size_t most) {
    auto rank = [&](size_t i) { return is_over(layers[i]) ? 2 : layers[i].state == LayerState::queued ? 1 : 0; };
    std::vector<size_t> out(layers.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = i;
    if (out.size() <= most) return out;
    std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    out.resize(most);
    std::sort(out.begin(), out.end());
    return out;
}

std::string rest_line(const Status& status, const std::vector<size_t>& shown) {
    size_t over = count(status, LayerState::done) + count(status, LayerState::present);
    for (size_t i : shown) over -= is_over(status.layers[i]) ? 1 : 0;
    return cat("and ", status.layers.size() - shown.size(), " more layers, ", over, " of them done");
}

std::string total_line(const Status& status, unsigned columns) {
    if (status.total == 0) return padded("", label_width) + " " + amounts(status);
    std::string numbers = numbers_of(status.received, status.total, status.rate);
    if (status.eta) numbers = cat(padded(numbers, 36), human_seconds(*status.eta), " left");
    return bar_line("total", share(status.received, status.total), numbers,
                    cat(right(cat(percent(status.received, status.total), "%"), 4)), columns);
}

}  // namespace

std::string human_seconds(double seconds) {
    auto all = static_cast<uint64_t>(std::clamp(std::ceil(seconds), 0.0, 1e9));
    if (all < 60) return cat(all, " s");
    if (all < 3600) return cat(all / 60, " min ", all % 60, " s");
    return cat(all / 3600, " h ", all % 3600 / 60, " min");
}

std::string line_of(const Status& status) {
    std::string out =
        cat(status.title, ": ", status.step ? of_step(*status.step) : amounts(status) + of_layers(status));
    if (status.retry_in) out += cat("; trying again in ", human_seconds(*status.retry_in));
    return out;
}

std::vector<std::string> bars_of(const Status& status, unsigned columns, unsigned rows) {
    columns = std::max(columns, 8U);
    std::vector<std::string> out{fitting(status.title, columns)};
    if (status.retry_in)
        out[0] = fitting(cat("trying again in ", human_seconds(*status.retry_in), ": ", status.title), columns);
    // The title, the total, the line of the rest, and the one that the cursor stays on.
    constexpr unsigned other_lines = 4;
    std::vector<size_t> shown = chosen(status.layers, rows > other_lines ? rows - other_lines : 0);
    for (size_t i : shown) out.push_back(fitting(layer_line(status.layers[i], columns), columns));
    if (shown.size() < status.layers.size() && rows >= other_lines)
        out.push_back(fitting(rest_line(status, shown), columns));
    if (rows > 2) out.push_back(fitting(total_line(status, columns), columns));
    return out;
}

}  // namespace berth::pull
