#include "runtime/trust/policy/image_name.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::trust {

namespace {

constexpr size_t name_limit = 255;
constexpr size_t tag_limit = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_small(char c) { return (c >= 'a' && c <= 'z') || is_digit(c); }
bool is_letter(char c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

template <typename Test>
bool all_of(std::string_view text, const Test& test) {
    return std::all_of(text.begin(), text.end(), test);
}

/// Between two letters or digits: one of . _ __ and any number of -.
bool is_separator(std::string_view text) {
    return text == "." || text == "_" || text == "__" ||
           (!text.empty() && all_of(text, [](char c) { return c == '-'; }));
}

bool is_component(std::string_view text) {
    while (true) {
        auto end = std::find_if_not(text.begin(), text.end(), is_small);
        if (end == text.begin()) return false;
        if (end == text.end()) return true;
        auto next = std::find_if(end, text.end(), is_small);
        if (!is_separator({end, next})) return false;
        text = {next, text.end()};
    }
}

bool is_label(std::string_view text) {
    return !text.empty() && text.front() != '-' && text.back() != '-' &&
           all_of(text, [](char c) { return is_letter(c) || c == '-'; });
}

bool is_domain(std::string_view text) {
    size_t colon = text.find(':');
    std::string_view port = colon == text.npos ? "0" : text.substr(colon + 1);
    if (port.empty() || !all_of(port, is_digit)) return false;
    std::vector<std::string> labels = split(text.substr(0, colon), '.');
    return std::all_of(labels.begin(), labels.end(), is_label);
}

bool is_path(std::string_view text) {
    std::vector<std::string> parts = split(text, '/');
    return std::all_of(parts.begin(), parts.end(), is_component);
}

bool is_tag(std::string_view text) {
    auto fits = [](char c) { return is_letter(c) || c == '_' || c == '.' || c == '-'; };
    return !text.empty() && text.size() <= tag_limit && text.front() != '.' && text.front() != '-' &&
           all_of(text, fits);
}

bool is_digest(std::string_view text) {
    for (const auto& [prefix, digits] : {std::pair{"sha256:", 64}, {"sha384:", 96}, {"sha512:", 128}})
        if (text.starts_with(prefix))
            return text.size() == 7 + static_cast<size_t>(digits) && all_of(text.substr(7), is_hex);
    return false;
}

/// The rest of `text` from `separator` on, cut off it; nothing when it is not there.
std::optional<std::string_view> cut(std::string_view& text, char separator) {
    size_t at = text.find(separator);
    if (at == text.npos) return std::nullopt;
    std::string_view rest = text.substr(at + 1);
    text = text.substr(0, at);
    return rest;
}

/// Only what has a dot, a port, or is called localhost is a host.
std::string take_domain(std::string_view& text) {
    size_t slash = text.find('/');
    std::string_view first = text.substr(0, slash);
    if (slash == text.npos || (first.find_first_of(".:") == first.npos && first != "localhost")) return "docker.io";
    text.remove_prefix(slash + 1);
    return std::string(first == "index.docker.io" ? "docker.io" : first);
}

}  // namespace

std::string ImageName::text() const {
    return cat(name(), tag.empty() ? "" : ":" + tag, digest.empty() ? "" : "@" + digest);
}

std::optional<ImageName> parse_image_name(std::string_view text) {
    // Such a short name would be taken for an image's id.
    if (text.size() == 64 && all_of(text, is_hex)) return std::nullopt;
    ImageName out;
    out.domain = take_domain(text);
    auto digest = cut(text, '@');
    auto tag = cut(text, ':');
    out.path = text;
    if (out.domain == "docker.io" && out.path.find('/') == out.path.npos) out.path.insert(0, "library/");
    if (!is_domain(out.domain) || !is_path(out.path) || out.name().size() > name_limit) return std::nullopt;
    if ((tag && !is_tag(*tag)) || (digest && !is_digest(*digest))) return std::nullopt;
    out.tag = tag.value_or("");
    out.digest = digest.value_or("");
    return out;
}

bool is_name_prefix(std::string_view text) {
    size_t slash = text.find('/');
    return is_domain(text.substr(0, slash)) && (slash == text.npos || is_path(text.substr(slash + 1)));
}

ImageName name_of(const plan::Reference& reference) {
    bool hub = reference.registry == "registry-1.docker.io" || reference.registry == "index.docker.io";
    ImageName out{hub ? "docker.io" : reference.registry, reference.name, reference.tag, ""};
    if (out.tag.empty() && reference.digest) out.digest = reference.digest->text();
    return out;
}

}  // namespace berth::trust
