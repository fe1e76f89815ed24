// Which requirements hold for an image.
#include "runtime/base/text.hh"
#include "runtime/trust/policy/policy.hh"

namespace berth::trust {

namespace {

/// "a/b/c" -> a/b/c, a/b, a; and then *.example.com, *.com of the host.
std::vector<std::string> namespaces_of(std::string name) {
    std::vector<std::string> out{name};
    for (size_t slash; (slash = name.rfind('/')) != name.npos;) {
        name.resize(slash);
        out.push_back(name);
    }
    if (size_t colon = name.find(':'); colon != name.npos) name.resize(colon);
    for (size_t dot; (dot = name.find('.')) != name.npos;) {
        name.erase(0, dot + 1);
        out.push_back("*." + name);
    }
    return out;
}

std::vector<std::string> folders_above(std::string path) {
    std::vector<std::string> out;
    for (size_t slash; (slash = path.rfind('/')) != path.npos && slash > 0;) {
        path.resize(slash);
        out.push_back(path);
    }
    return out;
}

std::string place_of(const std::string& transport, const std::string& scope) {
    return cat("transports.", printable(transport, 64), ".\"", printable(scope, 1024), "\"");
}

}  // namespace

Subject subject_of(const ImageName& name) {
    return {"docker", name.text(), namespaces_of(name.name()), name, name.text()};
}

Subject subject_of(const std::string& transport, const std::string& path) {
    std::string text = cat(transport, ":", path);
    bool has_scopes = transport == "dir" || transport == "oci" || transport == "oci-archive" || transport == "sif";
    if (!has_scopes) return {transport, "", {}, {}, text};
    return {transport, path, folders_above(path), {}, text};
}

Rule rule_for(const Policy& policy, const Subject& subject) {
    auto transport = policy.transports.find(subject.transport);
    if (transport == policy.transports.end()) return {&policy.fallback, "default"};
    std::vector<std::string> scopes{subject.identity};
    scopes.insert(scopes.end(), subject.namespaces.begin(), subject.namespaces.end());
    scopes.emplace_back("");
    for (const std::string& scope : scopes)
        if (auto found = transport->second.find(scope); found != transport->second.end())
            return {&found->second, place_of(subject.transport, scope)};
    return {&policy.fallback, "default"};
}

}  // namespace berth::trust
