#include "runtime/trust/lookaside.hh"

#include <yaml-cpp/yaml.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::trust {

namespace {

void must_be_map(const YAML::Node& node, const std::string& what) {
    if (!node.IsMap() && !node.IsNull()) throw Error(cat(what, " is no mapping"));
}

std::string text_of(const YAML::Node& node, const std::string& what) {
    if (!node.IsScalar()) throw Error(cat(what, " is no text"));
    return node.Scalar();
}

/// The address for reading in a section, by its present or its old name; empty when there is none.
std::string address_in(const YAML::Node& section, const std::string& what) {
    must_be_map(section, what);
    for (const char* key : {"lookaside", "sigstore"})
        if (section.IsMap() && section[key] && !section[key].IsNull())
            if (std::string url = text_of(section[key], cat(what, ".", key)); !url.empty()) return url;
    return {};
}

/// yaml-cpp takes the first of two equal keys without a word.
void must_differ(const YAML::Node& map, const std::string& what) {
    std::map<std::string, int> seen;
    for (const auto& entry : map)
        if (++seen[text_of(entry.first, cat(what, ": a key"))] > 1)
            throw Error(cat(what, " has the key \"", printable(entry.first.Scalar()), "\" twice"));
}

void take_scopes(const YAML::Node& scopes, const std::string& file, Lookaside& out) {
    std::string what = cat(file, ": docker");
    must_be_map(scopes, what);
    must_differ(scopes, what);
    for (const auto& entry : scopes) {
        std::string scope = entry.first.Scalar();
        std::string place = cat(what, ".\"", printable(scope, 1024), "\"");
        if (out.by_scope.count(scope) != 0) throw Error(cat(place, " is in another file too"));
        out.by_scope[scope] = address_in(entry.second, place);
    }
}

void take_file(const YAML::Node& root, const std::string& file, Lookaside& out) {
    must_be_map(root, file);
    if (!root.IsMap()) return;
    must_differ(root, file);
    if (YAML::Node section = root["default-docker"]; section && !section.IsNull()) {
        if (out.fallback) throw Error(cat(file, ": default-docker is in another file too"));
        out.fallback = address_in(section, cat(file, ": default-docker"));
    }
    if (YAML::Node scopes = root["docker"]; scopes) take_scopes(scopes, file, out);
}

}  // namespace

Lookaside parse_lookaside(const std::vector<NamedText>& files) {
    Lookaside out;
    for (const NamedText& file : files) {
        try {
            take_file(YAML::Load(file.text), file.name, out);
        } catch (const YAML::Exception& problem) {
            throw Error(cat(file.name, ":", problem.mark.line + 1, ": this is no YAML: ", printable(problem.msg)));
        }
    }
    return out;
}

std::string lookaside_of(const Lookaside& lookaside, const Subject& subject, const std::string& built_in) {
    std::vector<std::string> scopes{subject.identity};
    scopes.insert(scopes.end(), subject.namespaces.begin(), subject.namespaces.end());
    std::string url = lookaside.fallback.value_or("");
    for (const std::string& scope : scopes)
        if (auto found = lookaside.by_scope.find(scope); found != lookaside.by_scope.end() && !found->second.empty()) {
            url = found->second;
            break;
        }
    return cat(url.empty() ? built_in : url, "/", subject.name ? subject.name->path : "");
}

std::string signature_url(const std::string& base, const Digest& manifest, size_t number) {
    return cat(base, "@sha256=", manifest.hex(), "/signature-", number);
}

std::optional<std::string> path_of_url(std::string_view url) {
    constexpr std::string_view scheme = "file://";
    if (!url.starts_with(scheme)) return std::nullopt;
    return std::string(url.substr(scheme.size()));
}

}  // namespace berth::trust
