#include "runtime/pull/progress/progress_json.hh"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"

namespace berth::pull {

namespace {

using json = nlohmann::ordered_json;

json object(const JsonHead& head, const char* event) {
    json out{{"event", event}, {"time", head.time}};
    if (!head.image.empty()) out["image"] = head.image;
    return out;
}

/// Texts may quote bytes of a file's name that are not UTF-8.
std::string line_of(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

void add_layer(json& out, const LayerStatus& layer) {
    out["layer"] = layer.digest;
    out["state"] = name_of(layer.state);
    out["bytes"] = layer.received;
    out["total"] = layer.total;
    if (!layer.owner.empty()) out["owner"] = layer.owner;
}

}  // namespace

std::string json_of(const JsonHead& head, const Event& event) {
    static constexpr const char* names[] = {"phase", "layer", "retry", "note", "warning"};
    json out = object(head, names[static_cast<size_t>(event.kind)]);
    if (event.kind == Event::Kind::phase) {
        out["phase"] = name_of(event.phase);
        if (event.total > 0) out["total"] = event.total;
    }
    if (event.kind == Event::Kind::layer)
        add_layer(out, event.layer);
    else
        out["text"] = event.text;
    if (event.kind == Event::Kind::retry) out["seconds"] = event.seconds;
    return line_of(out);
}

std::string json_progress(const JsonHead& head, const Status& status) {
    std::string lines;
    for (const LayerStatus& layer : status.layers) {
        if (layer.state != LayerState::pulling) continue;
        json out = object(head, "progress");
        out["phase"] = name_of(status.phase);
        add_layer(out, layer);
        out["rate"] = std::llround(layer.rate);
        lines += line_of(out);
    }
    json out = object(head, "progress");
    out["phase"] = name_of(status.phase);
    out["bytes"] = status.received;
    if (status.total > 0) out["total"] = status.total;
    out["rate"] = std::llround(status.rate);
    if (status.eta) out["eta"] = std::llround(*status.eta);
    return lines + line_of(out);
}

std::string json_done(const JsonHead& head, const std::string& digest, uint64_t bytes) {
    json out = object(head, "done");
    out["digest"] = digest;
    out["bytes"] = bytes;
    return line_of(out);
}

std::string json_error(const JsonHead& head, const Error& error) {
    json out = object(head, "error");
    out["text"] = error.what();
    out["code"] = error.exit_code();
    return line_of(out);
}

std::string json_time(int64_t milliseconds) {
    std::time_t seconds = milliseconds / 1000;
    std::tm fields{};
    ::gmtime_r(&seconds, &fields);
    char date[32], out[48];
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &fields);
    std::snprintf(out, sizeof out, "%s.%03dZ", date, static_cast<int>(milliseconds % 1000));
    return out;
}

}  // namespace berth::pull
