#include "runtime/trust/policy/scopes.hh"

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/base/text.hh"
#include "runtime/trust/policy/image_name.hh"

namespace berth::trust {

namespace {

/// An absolute path without "//", "." and "..", and not "/", for which there is "".
bool is_clean_path(const std::string& path) {
    if (path.size() < 2 || path[0] != '/') return false;
    std::vector<std::string> parts = split(path.substr(1), '/');
    return std::none_of(parts.begin(), parts.end(),
                        [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

/// Of any algorithm that signatures may have.
bool is_digest(const std::string& text) { return parse_image_name("a@" + text).has_value(); }

/// [DRIVER@ROOT] or [ROOT]
bool is_store(const std::string& place) {
    size_t at = place.find('@');
    std::string root = at == place.npos ? place : place.substr(at + 1);
    return at != 0 && root.starts_with('/');
}

bool is_stored_name(const std::string& name) {
    std::vector<std::string> parts = split(name, '@');
    auto is_id = [](const std::string& part) { return is_digest("sha256:" + part); };
    if (parts.size() == 2) return is_id(parts[1]) || is_digest(parts[1]);
    return parts.size() == 1 || (parts.size() == 3 && is_digest(parts[1]) && is_id(parts[2]));
}

bool is_storage(const std::string& scope) {
    size_t end = scope.find(']');
    return scope[0] == '[' && end != scope.npos && is_store(scope.substr(1, end - 1)) &&
           is_stored_name(scope.substr(end + 1));
}

struct Rule {
    bool (*fits)(const std::string&);
    const char* mistake;
};

const std::map<std::string, Rule>& rules() {
    static const Rule path{is_clean_path, "is no absolute path in its plain form (for all of them there is \"\")"};
    static const Rule none{[](const std::string&) { return false; },
                           "is no scope of this transport, which has \"\" only"};
    static const std::map<std::string, Rule> out{
        {"dir", path},
        {"oci", path},
        {"oci-archive", path},
        {"sif", path},
        {"docker-archive", none},
        {"tarball", none},
        {"docker-daemon",
         {[](const std::string& scope) { return !is_digest(scope); }, "is a digest, which has no names"}},
        {"containers-storage", {is_storage, "is not [DRIVER@ROOT]NAME"}},
    };
    return out;
}

}  // namespace

std::string scope_mistake(const std::string& transport, const std::string& scope) {
    auto rule = rules().find(transport);
    if (scope.empty() || rule == rules().end() || rule->second.fits(scope)) return {};
    return rule->second.mistake;
}

}  // namespace berth::trust
