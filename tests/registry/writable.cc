#include "tests/registry/writable.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::test {

namespace {

using nlohmann::json;

constexpr const char* index_type = "application/vnd.oci.image.index.v1+json";

HttpReply not_found() { return {.status = 404, .body = R"({"errors":[{"code":"NOT_FOUND"}]})"}; }

/// The part of `text` behind `word`; nothing when it does not begin so.
std::optional<std::string> behind(const std::string& text, const std::string& word) {
    return text.starts_with(word) ? std::optional(text.substr(word.size())) : std::nullopt;
}

}  // namespace

HttpReply WritableRegistry::answer(const HttpCall& call) {
    std::lock_guard lock(mutex_);
    // /v2/NAME/KIND/...: the names of these tests have no such words in them.
    for (const char* kind : {"/blobs/", "/manifests/", "/referrers/", "/tags/"}) {
        size_t at = call.target.find(kind);
        if (!call.target.starts_with("/v2/") || at == call.target.npos) continue;
        std::string name = call.target.substr(4, at - 4), rest = call.target.substr(at + 1);
        Repository& repository = repositories_[name];
        if (rest.starts_with("blobs/uploads/")) return upload(repository, call, name);
        if (auto digest = behind(rest, "blobs/")) return blob(repository, *digest);
        if (auto reference = behind(rest, "manifests/")) return at_manifest(repository, call, *reference);
        if (auto digest = behind(rest, "referrers/")) return referrers(repository, *digest);
        return tag_list(repository, name);
    }
    return call.target == "/v2/" ? HttpReply{} : not_found();
}

HttpReply WritableRegistry::upload(Repository& repository, const HttpCall& call, const std::string& name) {
    if (call.method == "POST")
        return {.status = 202, .headers = {cat("Location: /v2/", name, "/blobs/uploads/one")}};
    size_t at = call.target.find("?digest=");
    if (call.method != "PUT" || at == call.target.npos) return not_found();
    std::string digest = call.target.substr(at + 8);
    if (oci::sha256_of(call.body).text() != digest)
        return {.status = 400, .body = R"({"errors":[{"code":"DIGEST_INVALID"}]})"};
    repository.blobs[digest] = call.body;
    return {.status = 201};
}

HttpReply WritableRegistry::blob(const Repository& repository, const std::string& digest) const {
    auto found = repository.blobs.find(digest);
    return found == repository.blobs.end() ? not_found() : HttpReply{.body = found->second};
}

HttpReply WritableRegistry::at_manifest(Repository& repository, const HttpCall& call, const std::string& reference) {
    if (call.method == "PUT") return put_manifest(repository, call, reference);
    auto tag = repository.tags.find(reference);
    std::string digest = tag == repository.tags.end() ? reference : tag->second;
    auto found = repository.manifests.find(digest);
    if (found == repository.manifests.end()) return not_found();
    if (call.method == "DELETE") {
        std::erase_if(repository.tags, [&](const auto& one) { return one.second == digest; });
        repository.manifests.erase(found);
        return {.status = 202};
    }
    return {.headers = {"Content-Type: " + found->second.type, "Docker-Content-Digest: " + digest},
            .body = found->second.bytes};
}

HttpReply WritableRegistry::put_manifest(Repository& repository, const HttpCall& call,
                                         const std::string& reference) const {
    json document = json::parse(call.body);
    // Blobs come first.
    for (const json& one : document.value("layers", json::array()))
        if (!repository.blobs.contains(one.at("digest")))
            return {.status = 400, .body = R"({"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]})"};
    std::string digest = oci::sha256_of(call.body).text();
    repository.manifests[digest] = {call.headers.at("content-type"), call.body};
    if (!reference.starts_with("sha256:")) repository.tags[reference] = digest;
    HttpReply out{.status = 201, .headers = {"Docker-Content-Digest: " + digest}};
    if (has_referrers_ && document.contains("subject"))
        out.headers.push_back("OCI-Subject: " + document["subject"].at("digest").get<std::string>());
    return out;
}

HttpReply WritableRegistry::referrers(const Repository& repository, const std::string& digest) const {
    if (!has_referrers_) return not_found();
    json manifests = json::array();
    for (const auto& [own, manifest] : repository.manifests) {
        json document = json::parse(manifest.bytes);
        if (!document.contains("subject") || document["subject"].at("digest") != digest) continue;
        manifests.push_back({{"mediaType", manifest.type},
                             {"digest", own},
                             {"size", manifest.bytes.size()},
                             {"artifactType", document.value("artifactType", "")}});
    }
    json list{{"schemaVersion", 2}, {"mediaType", index_type}, {"manifests", manifests}};
    return {.headers = {cat("Content-Type: ", index_type)}, .body = list.dump()};
}

HttpReply WritableRegistry::tag_list(const Repository& repository, const std::string& name) const {
    json tags = json::array();
    for (const auto& [tag, digest] : repository.tags) tags.push_back(tag);
    return {.body = json{{"name", name}, {"tags", tags}}.dump()};
}

std::vector<std::string> WritableRegistry::tags(const std::string& repository) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> out;
    auto found = repositories_.find(repository);
    if (found != repositories_.end())
        for (const auto& [tag, digest] : found->second.tags) out.push_back(tag);
    return out;
}

std::string WritableRegistry::manifest(const std::string& repository, const std::string& tag) const {
    std::lock_guard lock(mutex_);
    auto found = repositories_.find(repository);
    if (found == repositories_.end() || !found->second.tags.contains(tag)) return {};
    return found->second.manifests.at(found->second.tags.at(tag)).bytes;
}

}  // namespace berth::test
