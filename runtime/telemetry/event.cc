#include "runtime/telemetry/event.hh"

#include <cstdio>

#include "runtime/base/json_text.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

constexpr const char* cause_names[cause_count] = {"request", "image", "denied", "not_found", "network", "space",
                                                  "devices", "plan", "container", "entrypoint", "killed", "other"};

bool is_leap(unsigned year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/// gmtime_r(3) would read /etc/localtime, which is the image's by the time an event is written, and not every standard
/// library has a calendar.
std::string iso_time(int64_t microseconds) {
    constexpr int64_t second = 1'000'000, day = 86'400 * second;
    const int64_t clock = microseconds % day / second;
    auto days = static_cast<unsigned>(microseconds / day);
    unsigned year = 1970, month = 0;
    for (; days >= 365U + is_leap(year); ++year) days -= 365U + is_leap(year);
    const unsigned lengths[] = {31, 28U + is_leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (; days >= lengths[month]; ++month) days -= lengths[month];
    char text[80];
    std::snprintf(text, sizeof text, "%04u-%02u-%02uT%02d:%02d:%02d.%06dZ", year, month + 1, days + 1,
                  static_cast<int>(clock / 3600), static_cast<int>(clock / 60 % 60), static_cast<int>(clock % 60),
                  static_cast<int>(microseconds % second));
    return text;
}

/// ,"name":"text" unless the text is empty. At most `limit` bytes of text: control characters and quotes become longer
/// in JSON.
std::string member(const char* name, const std::string& text, size_t limit) {
    constexpr size_t quotes = 2;
    if (text.empty()) return {};
    std::string_view shown = std::string_view(text).substr(0, limit);
    std::string value = json_text(shown);
    while (value.size() > limit + quotes) {
        shown = shown.substr(0, shown.size() * limit / value.size());
        value = json_text(shown);
    }
    return cat(",\"", name, "\":", value);
}

const char* name_of(Event::Kind kind) {
    static constexpr const char* kinds[] = {"start", "pull", "import", "failure"};
    return kinds[static_cast<size_t>(kind)];
}

std::string members_of(const Event& event) {
    if (event.kind == Event::Kind::failure)
        return cat(",\"of\":\"", name_of(event.of), "\",\"cause\":\"", name_of(event.cause), "\"",
                   member("error", event.error, 1024));
    std::string out = member("file", event.file, 512);
    if (event.kind == Event::Kind::start) out = cat(",\"from\":\"", name_of(event.from), "\"");
    std::string waited = event.waited_bytes == 0 ? "" : cat(",\"waited_bytes\":", event.waited_bytes);
    out += cat(",\"bytes\":", event.bytes, ",\"peer_bytes\":", event.peer_bytes,
               ",\"published_bytes\":", event.published_bytes, waited, member("refused", event.refused, 256),
               member("note", event.note, 256),
               ",\"us\":", event.total, ",\"phases\":{");
    for (const PhaseTime& phase : event.phases)
        out += cat(&phase == &event.phases.front() ? "" : ",", json_text(phase.name.substr(0, 32)), ":",
                   phase.microseconds);
    return out + "}";
}

}  // namespace

const char* name_of(Cause cause) { return cause_names[static_cast<size_t>(cause)]; }

Cause cause_of(std::string_view word) {
    for (size_t i = 0; i < cause_count; ++i)
        if (word == cause_names[i]) return static_cast<Cause>(i);
    return Cause::other;
}

const char* name_of(ImageFrom from) {
    static constexpr const char* names[image_from_count] = {"store", "pull", "file", "container"};
    return names[static_cast<size_t>(from)];
}

std::string phases_text(const std::vector<PhaseTime>& phases) {
    std::string out;
    for (const PhaseTime& phase : phases) out += cat(out.empty() ? "" : " ", phase.name, "=", phase.microseconds);
    return out;
}

std::vector<PhaseTime> parse_phases(std::string_view text) {
    std::vector<PhaseTime> out;
    for (const std::string& pair : split(text, ' ')) {
        size_t equals = pair.find('=');
        PhaseTime phase{pair.substr(0, equals), 0};
        if (equals != std::string::npos && out.size() < 32 &&
            parse_number(pair.substr(equals + 1), INT64_MAX, phase.microseconds))
            out.push_back(phase);
    }
    return out;
}

std::string json_line(const Event& event) {
    return cat("{\"time\":\"", iso_time(event.time), "\",\"kind\":\"", name_of(event.kind), "\",\"uid\":", event.uid,
               member("user", event.user, 64), member("node", event.node, 64), member("job", event.job, 64),
               member("image", event.image, 512), member("digest", event.digest, 80),
               member("container", event.container, 64), member("signer", event.signer, 512),
               member("rule", event.rule, 256), members_of(event), "}\n");
}

}  // namespace berth::plan
