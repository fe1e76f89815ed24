#include "runtime/request/reference.hh"

#include <algorithm>
#include <cstdint>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/values.hh"

namespace berth::plan {

namespace {

constexpr std::string_view docker_hub = "registry-1.docker.io";
constexpr size_t text_limit = 4096;
constexpr size_t name_limit = 255;
constexpr size_t tag_limit = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_alnum(char c) { return is_digit(c) || is_lower(c) || (c >= 'A' && c <= 'Z'); }
bool is_lower_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_any_hex(char c) { return is_lower_hex(c) || (c >= 'A' && c <= 'F'); }

struct Scheme {
    std::string_view prefix;
    Reference::Kind kind;
};
constexpr Scheme schemes[] = {{"oci:", Reference::Kind::oci},
                              {"oci-archive:", Reference::Kind::oci_archive},
                              {"docker-archive:", Reference::Kind::docker_archive},
                              {"dockerd://", Reference::Kind::dockerd},
                              {"podman://", Reference::Kind::podman}};

bool has_registry_shape(std::string_view part) { return part == "localhost" || part.find_first_of(".:[") != part.npos; }

/// What stands behind an `@` is meant as a digest when it names a hash or ends in a long run of hexadecimal digits;
/// otherwise the text before the `@` is a login name.
bool means_digest(std::string_view rest) {
    if (lower(rest.substr(0, 3)) == "sha") {
        size_t end = std::min(rest.find(':'), rest.size());
        if (end > 3 && std::all_of(rest.begin() + 3, rest.begin() + static_cast<long>(end), is_digit)) return true;
    }
    size_t colon = rest.find(':');
    return colon != rest.npos && rest.size() - colon > 32 &&
           std::all_of(rest.begin() + static_cast<long>(colon) + 1, rest.end(), is_any_hex);
}

/// Works on views into `text`, so that the place of a mistake is the distance from its start.
class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}
    Reference parse();

  private:
    [[noreturn]] void fail(std::string_view message, const char* at) const {
        throw Error(with_caret(cat("image reference: ", message), text_, static_cast<size_t>(at - text_.data())));
    }
    Reference parse_local(Reference::Kind kind, std::string_view rest) const;
    std::string_view without_scheme() const;
    void check_selector(std::string_view selector) const;
    void take_image(std::string_view rest, Reference& out) const;
    void take_user(std::string_view& rest, Reference& out) const;
    void take_registry(std::string_view& rest, Reference& out) const;
    void take_digest(std::string_view& rest, Reference& out) const;
    void take_tag(std::string_view& rest, Reference& out) const;
    void check_host(std::string_view host) const;
    void check_label(std::string_view label) const;
    void check_port(std::string_view port) const;
    void check_name(std::string_view name) const;
    void check_component(std::string_view component) const;

    std::string_view text_;
};

Reference Parser::parse() {
    Reference out;
    if (text_.empty()) throw Error("image reference: empty; write REGISTRY/NAME:TAG or ./FILE.sqsh");
    if (text_.size() > text_limit) throw Error(cat("image reference: longer than ", text_limit, " bytes"));
    if (size_t nul = text_.find('\0'); nul != text_.npos) fail("a NUL byte cannot be part of it", text_.data() + nul);
    // As Pyxis has it: no name of a registry or an image starts so.
    if (text_[0] == '~' && !is_below_home(text_)) fail(other_home_mistake(text_), text_.data());
    if (text_[0] == '/' || text_[0] == '.' || text_[0] == '~') {
        out.kind = Reference::Kind::path;
        out.path = text_;
        return out;
    }
    for (const Scheme& scheme : schemes)
        if (text_.starts_with(scheme.prefix)) return parse_local(scheme.kind, text_.substr(scheme.prefix.size()));
    std::string_view rest = without_scheme();
    take_user(rest, out);
    take_image(rest, out);
    return out;
}

/// The other sources: the first colon ends a path, as skopeo has it.
Reference Parser::parse_local(Reference::Kind kind, std::string_view rest) const {
    Reference out;
    out.kind = kind;
    if (out.has_path()) {
        size_t colon = rest.find(':');
        out.path = rest.substr(0, colon);
        if (out.path.empty()) fail("the path is missing", rest.data());
        if (out.path[0] == '~' && !is_below_home(out.path)) fail(other_home_mistake(out.path), rest.data());
        if (colon == rest.npos) return out;
        rest.remove_prefix(colon + 1);
        if (rest.empty())
            fail("what follows the colon is empty; without the colon the only image is meant", rest.data());
    }
    out.selector = rest;
    check_selector(rest);
    if (kind != Reference::Kind::oci && kind != Reference::Kind::oci_archive) take_image(rest, out);
    return out;
}

void Parser::check_selector(std::string_view selector) const {
    constexpr size_t selector_limit = 200;
    auto bad = std::find_if(selector.begin(), selector.end(), [](char c) { return c <= ' ' || c > '~' || c == '%'; });
    if (bad != selector.end()) fail("this character cannot be part of an image's name", &*bad);
    if (selector.size() > selector_limit)
        fail(cat("an image's name has here at most ", selector_limit, " characters"), selector.data() + selector_limit);
}

void Parser::take_image(std::string_view rest, Reference& out) const {
    take_registry(rest, out);
    take_digest(rest, out);
    take_tag(rest, out);
    check_name(rest);
    out.name = rest;
    if (out.registry == docker_hub && out.name.find('/') == out.name.npos) out.name.insert(0, "library/");
    if (out.name.size() > name_limit) fail(cat("the name is longer than ", name_limit, " bytes"), rest.data());
    if (out.tag.empty() && !out.digest) out.tag = "latest";
}

std::string_view Parser::without_scheme() const {
    if (text_.starts_with("docker-daemon:"))
        fail("the images of a docker daemon are written dockerd://NAME:TAG", text_.data());
    if (text_.starts_with("docker://")) return text_.substr(9);
    if (size_t scheme = text_.find("://"); scheme != text_.npos)
        fail(
            "unknown kind of image source; there are docker:// (or no prefix), dockerd://, podman://, oci:, "
            "oci-archive: and docker-archive:",
            text_.data());
    return text_;
}

void Parser::take_user(std::string_view& rest, Reference& out) const {
    size_t at = rest.find('@');
    if (at == rest.npos || at > rest.find_first_of("/#") || means_digest(rest.substr(at + 1))) return;
    std::string_view user = rest.substr(0, at);
    if (user.empty()) fail("the login name before `@` is empty", rest.data());
    // Without the text, which would be in a log as well.
    if (user.find(':') != user.npos)
        throw Error(cat("image reference: a password before `@` can be read by everybody on the node, and stays in ",
                        "Slurm's records; write ", printable(user.substr(0, user.find(':'))),
                        "@ alone, and put the password into ~/.config/enroot/.credentials or run berth login"));
    auto bad = std::find_if(user.begin(), user.end(), [](char c) { return c <= ' ' || c > '~'; });
    if (bad != user.end()) fail("this character cannot be part of a login name", &*bad);
    out.user = user;
    rest.remove_prefix(at + 1);
}

void Parser::take_registry(std::string_view& rest, Reference& out) const {
    size_t end = rest.find('#');
    bool given = end != rest.npos;
    if (!given) {
        end = rest.find('/');
        given = end != rest.npos && has_registry_shape(rest.substr(0, end));
    }
    if (!given) {
        out.registry = docker_hub;
        return;
    }
    std::string_view host = rest.substr(0, end);
    check_host(host);
    out.registry = lower(host);
    if (out.registry == "docker.io" || out.registry == "index.docker.io") out.registry = docker_hub;
    rest.remove_prefix(end + 1);
}

void Parser::take_digest(std::string_view& rest, Reference& out) const {
    size_t at = rest.find('@');
    if (at == rest.npos) return;
    std::string_view digest = rest.substr(at + 1);
    if (!digest.starts_with("sha256:"))
        fail("a digest is written sha256: and 64 lower-case hexadecimal digits", rest.data() + at + 1);
    auto bad = std::find_if_not(digest.begin() + 7, digest.end(), is_lower_hex);
    if (bad != digest.end()) fail("a digest has lower-case hexadecimal digits only", &*bad);
    out.digest = Digest::parse(digest);
    if (!out.digest) fail(cat("a sha256 digest has 64 digits, this one has ", digest.size() - 7), digest.data() + 7);
    rest = rest.substr(0, at);
}

void Parser::take_tag(std::string_view& rest, Reference& out) const {
    size_t colon = rest.rfind(':');
    if (colon == rest.npos || (rest.rfind('/') != rest.npos && colon < rest.rfind('/'))) return;
    std::string_view tag = rest.substr(colon + 1);
    const char* start = rest.data() + colon + 1;
    if (tag.empty()) fail("the tag is empty", start);
    if (!is_alnum(tag[0]) && tag[0] != '_') fail("a tag starts with a letter, a digit or `_`", start);
    auto bad = std::find_if_not(tag.begin(), tag.end(),
                                [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
    if (bad != tag.end()) fail("this character cannot be part of a tag", &*bad);
    if (tag.size() > tag_limit) fail(cat("a tag has at most ", tag_limit, " characters"), start + tag_limit);
    out.tag = tag;
    rest = rest.substr(0, colon);
}

void Parser::check_host(std::string_view host) const {
    if (host.empty()) fail("the registry is empty", host.data());
    if (host[0] == '[') {
        size_t close = host.find(']');
        if (close == host.npos) fail("an IPv6 address ends in `]`", host.data());
        auto bad = std::find_if_not(host.begin() + 1, host.begin() + static_cast<long>(close),
                                    [](char c) { return is_any_hex(c) || c == ':' || c == '.'; });
        if (*bad != ']' || close < 3) fail("not an IPv6 address", &*bad);
        std::string_view port = host.substr(close + 1);
        if (!port.empty() && port[0] != ':') fail("after the address comes `:` and the port, or `/`", port.data());
        if (!port.empty()) check_port(port.substr(1));
        return;
    }
    size_t colon = host.find(':');
    if (colon != host.npos) check_port(host.substr(colon + 1));
    std::string_view labels = host.substr(0, colon);
    if (labels.size() > 253) fail("a host name has at most 253 characters", labels.data());
    for (size_t start = 0;;) {
        size_t dot = labels.find('.', start);
        check_label(labels.substr(start, dot - start));
        if (dot == labels.npos) return;
        start = dot + 1;
    }
}

void Parser::check_label(std::string_view label) const {
    if (label.empty()) fail("a part of the registry's host name is empty", label.data());
    // No rule of the Internet's allows `_`; hosts of sites have it.
    auto bad = std::find_if_not(label.begin(), label.end(), [](char c) { return is_alnum(c) || c == '-' || c == '_'; });
    if (bad != label.end()) fail("this character cannot be part of a registry's host name", &*bad);
    if (label.front() == '-') fail("a part of a host name does not start with `-`", label.data());
    if (label.back() == '-') fail("a part of a host name does not end with `-`", &label.back());
}

void Parser::check_port(std::string_view port) const {
    uint64_t number = 0;
    if (!parse_number(port, 65535, number) || number == 0)
        fail("the registry's port is a number from 1 to 65535", port.data());
}

void Parser::check_name(std::string_view name) const {
    for (size_t start = 0;;) {
        size_t slash = name.find('/', start);
        check_component(name.substr(start, slash - start));
        if (slash == name.npos) return;
        start = slash + 1;
    }
}

/// [a-z0-9]+((.|_|__|-+)[a-z0-9]+)* of the distribution specification.
void Parser::check_component(std::string_view component) const {
    auto plain = [](char c) { return is_lower(c) || is_digit(c); };
    if (component.empty()) fail("a part of the image's name is empty", component.data());
    for (size_t i = 0; i < component.size();) {
        if (!plain(component[i])) {
            bool separator = component[i] == '.' || component[i] == '_' || component[i] == '-';
            fail(separator ? "a part of a name starts with a letter or digit"
                           : "a name has lower-case letters, digits and . _ - / only",
                 &component[i]);
        }
        while (i < component.size() && plain(component[i])) ++i;
        if (i == component.size()) return;
        size_t start = i;
        while (i < component.size() && component[i] == component[start] &&
               (component[i] == '.' || component[i] == '_' || component[i] == '-'))
            ++i;
        size_t run = i - start;
        if (run > 1 && (component[start] == '.' || (component[start] == '_' && run > 2)))
            fail("too many separators in a row", &component[start + 1]);
        if (run > 0 && i == component.size()) fail("a part of a name ends with a letter or digit", &component[start]);
    }
}

}  // namespace

std::string Reference::text() const {
    if (kind == Kind::path) return path;
    for (const Scheme& scheme : schemes)
        if (scheme.kind == kind) return cat(scheme.prefix, path, has_path() && !selector.empty() ? ":" : "", selector);
    std::string out = cat(registry, has_registry_shape(registry) ? "/" : "#", name);
    if (!tag.empty()) out += cat(":", tag);
    if (digest) out += cat("@", *digest);
    return out;
}

Reference parse_reference(std::string_view text) {
    Reference out = Parser(text).parse();
    out.written = text;
    return out;
}

Reference with_absolute_path(Reference reference, const std::string& cwd, const std::string& home) {
    if (reference.has_path()) reference.path = with_home(reference.path, home);
    if (reference.has_path() && reference.path[0] != '/') reference.path = path_from(cwd, reference.path);
    return reference;
}

Reference image_with_home(Reference reference, const std::string& home) {
    if (!reference.has_path() || !is_below_home(reference.path)) return reference;
    reference.path = with_home(reference.path, home);
    reference.written = reference.text();
    return reference;
}

bool looks_like_image_file(std::string_view text) {
    if (text.find_first_of("/:@#") != text.npos) return false;
    constexpr std::string_view endings[] = {".sqsh",   ".squashfs", ".sqfs",     ".sif",    ".tar",     ".tgz",
                                            ".tar.gz", ".tar.zst",  ".tar.zstd", ".tar.xz", ".tar.bz2", ".tar.lz4"};
    return std::any_of(std::begin(endings), std::end(endings),
                       [&](std::string_view ending) { return text.ends_with(ending); });
}

std::string cut_image_mistake(std::string_view text) {
    constexpr std::string_view scheme = "docker://";
    std::string_view rest = text.starts_with(scheme) ? text.substr(scheme.size()) : text;
    if (size_t at = rest.find('@'); at != rest.npos) {
        if (rest.substr(at + 1).starts_with("sha256:")) return {};
        rest.remove_prefix(at + 1);
    }
    std::string_view host = rest.substr(0, rest.find(':'));
    if (rest.find_first_of("/#@") != rest.npos || host.find('.') == host.npos || host.starts_with('.')) return {};
    // These mean a file.
    if (looks_like_image_file(rest) || rest.ends_with(".simg")) return {};
    return cat(printable(text, 1024), " is a registry without an image: Slurm cuts the value of an #SBATCH line at #; "
               "quote the value, or write ", printable(rest, 1024), "/IMAGE:TAG");
}

std::string missing_file_mistake(std::string_view text) {
    std::string shown = printable(text);
    return cat("image ", shown, ": there is no such file here; for a file write its path, as ./", shown,
               ", and for an image of a registry that is called so its tag as well, ", shown, ":latest");
}

std::string image_file_mistake(std::string_view text) {
    std::string shown = printable(text);
    return cat("image ", shown,
               ": this names an image of a registry, but a file of that name is in the working directory; write ./",
               shown, " to use the file");
}

}  // namespace berth::plan
