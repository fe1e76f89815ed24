#include "runtime/pull/report/read_events.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::pull::report {

namespace {

using nlohmann::json;

constexpr uint64_t file_limit = 1 << 30;
constexpr size_t read_size = 1 << 20;
/// Longer ones are no events (telemetry/event.hh).
constexpr size_t line_limit = 16 << 10;
constexpr size_t phases_limit = 64;
constexpr const char* what = "an event";

/// Microseconds since 1970 of "2023-11-14T22:13:20.000001Z".
std::optional<int64_t> parse_time(const std::string& text) {
    std::tm when{};
    int micros = 0, end = 0;
    if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &when.tm_year, &when.tm_mon, &when.tm_mday,
                    &when.tm_hour, &when.tm_min, &when.tm_sec, &micros, &end) != 7 ||
        end == 0 || static_cast<size_t>(end) != text.size() || micros < 0)
        return std::nullopt;
    when.tm_year -= 1900, when.tm_mon -= 1;
    return int64_t{::timegm(&when)} * 1'000'000 + micros;
}

std::string text_at(const json& document, const char* name) {
    return oci::string_member(document, name, what).value_or("");
}

/// Of microseconds or bytes; so many that sums of them stay numbers.
template <typename Value>
uint64_t amount(const Value& value) {
    constexpr uint64_t most = 1'000'000'000'000'000;
    return value.is_number_unsigned() ? std::min(value.template get<uint64_t>(), most) : 0;
}

uint64_t number_at(const json& document, const char* name) {
    auto found = document.find(name);
    return found != document.end() ? amount(*found) : 0;
}

std::optional<plan::Event::Kind> kind_of(const std::string& word) {
    using Kind = plan::Event::Kind;
    if (word == "start") return Kind::start;
    if (word == "pull") return Kind::pull;
    if (word == "import") return Kind::import;
    return word == "failure" ? std::optional(Kind::failure) : std::nullopt;
}

plan::ImageFrom from_of(const std::string& word) {
    for (size_t i = 0; i < plan::image_from_count; ++i)
        if (word == plan::name_of(static_cast<plan::ImageFrom>(i))) return static_cast<plan::ImageFrom>(i);
    return plan::ImageFrom::store;
}

/// In the order of the line, which is that in which they were.
std::vector<plan::PhaseTime> phases_of(std::string_view line) {
    std::vector<plan::PhaseTime> out;
    auto document = nlohmann::ordered_json::parse(line);
    auto phases = document.find("phases");
    if (phases == document.end() || !phases->is_object()) return out;
    for (const auto& [name, time] : phases->items())
        if (out.size() < phases_limit && time.is_number_unsigned()) out.push_back({name, amount(time)});
    return out;
}

std::optional<plan::Event> event_of(const json& document, std::string_view line) {
    if (!document.is_object()) return std::nullopt;
    auto time = parse_time(text_at(document, "time"));
    auto kind = kind_of(text_at(document, "kind"));
    if (!time || !kind) return std::nullopt;
    plan::Event out;
    out.time = *time;
    out.kind = *kind;
    out.of = kind_of(text_at(document, "of")).value_or(plan::Event::Kind::start);
    out.user = text_at(document, "user");
    out.node = text_at(document, "node");
    out.job = text_at(document, "job");
    out.image = text_at(document, "image");
    out.container = text_at(document, "container");
    out.digest = text_at(document, "digest");
    out.from = from_of(text_at(document, "from"));
    out.bytes = number_at(document, "bytes");
    out.peer_bytes = number_at(document, "peer_bytes");
    out.published_bytes = number_at(document, "published_bytes");
    out.total = number_at(document, "us");
    out.phases = phases_of(line);
    out.cause = plan::cause_of(text_at(document, "cause"));
    out.error = text_at(document, "error");
    return out;
}

void take_line(EventFile& out, std::string_view line) {
    if (trimmed(line).empty()) return;
    if (auto event = parse_event(line))
        out.events.push_back(std::move(*event));
    else
        ++out.unread;
}

std::string name_of(const std::string& path) { return cat("reading the events of ", printable(path, 4096)); }

EventFile read_all_events(int file, const std::string& name) {
    EventFile out;
    std::string rest;
    std::vector<char> buffer(read_size);
    for (uint64_t size = 0;;) {
        ssize_t got = sys::uninterrupted([&] { return ::read(file, buffer.data(), buffer.size()); });
        if (got < 0) throw SysError(name);
        if (got == 0) break;
        if ((size += static_cast<uint64_t>(got)) > file_limit)
            throw Error(cat(name, ": more than 1 GiB; name a part of it"));
        rest.append(buffer.data(), static_cast<size_t>(got));
        size_t start = 0;
        for (size_t end; (end = rest.find('\n', start)) != rest.npos; start = end + 1)
            take_line(out, std::string_view(rest).substr(start, end - start));
        rest.erase(0, start);
        // So much says that it is too long.
        rest.resize(std::min(rest.size(), line_limit + 1));
    }
    take_line(out, rest);
    return out;
}

}  // namespace

std::optional<plan::Event> parse_event(std::string_view line) try {
    if (line.size() > line_limit) return std::nullopt;
    return event_of(oci::parse_json(line, what), line);
} catch (const Error&) {
    return std::nullopt;
}

EventFile read_events(const std::string& path) {
    return read_all_events(sys::open_file(path, O_RDONLY).get(), name_of(path));
}

EventFile read_events_of_users(const std::string& path) {
    Fd file = sys::open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!S_ISREG(sys::stat_of(file.get(), name_of(path)).st_mode)) throw Error(cat(name_of(path), ": no regular file"));
    return read_all_events(file.get(), name_of(path));
}

}  // namespace berth::pull::report
