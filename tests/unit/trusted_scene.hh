// An image whose layers are published, and signed by a key of the site's policy.
#pragma once
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "runtime/pull/layers/unproved.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/payload.hh"
#include "tests/fixtures/published_scene.hh"
#include "tests/unit/trust_keys.hh"

namespace berth::fixtures {

inline void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// Image and artifact are signed by a key of the policy.
struct TrustedScene : PublishedScene {
    trust::PrivateKey key = test::make_key("P-256");
    pull::Meter meter{"x"};

    explicit TrustedScene(std::vector<std::string> of_tars = {}) : PublishedScene(std::move(of_tars)) {
        signatures = {folder / "policy.json", false, "berth.conf:3: policy.signatures"};
        write(folder / "key.pub", key.public_key().pem());
        write(signatures.policy, R"({"default":[{"type":"sigstoreSigned","keyPath":")" + (folder / "key.pub") +
                                     R"(","signedIdentity":{"type":"matchRepository"}}]})");
        attach(Digest(digest), host + "/a/b:1");
    }
    void attach(const Digest& manifest, const std::string& name) {
        std::string payload = trust::make_payload({manifest, name}, 1700000000);
        trust::NewAttachment made = trust::with_signature("", payload, key.sign(payload), "m");
        content.add_blob(payload);
        content.tag(trust::signature_tag(manifest), content.add_manifest(oci_manifest, made.manifest));
    }
    /// Under the name of the repository `name`.
    void publish_signed(const std::string& name = "/a/b") { publish_signed(artifact(), name); }
    void publish_signed(const oci::Artifact& artifact, const std::string& name = "/a/b") {
        std::string document = oci::make_artifact(artifact);
        publish(document);
        attach(oci::sha256_of(document), host + name + ":" + oci::artifact_tag(Digest(digest)));
    }
    /// What is left to be proved.
    std::optional<pull::Unproved> pull_early() { return pull_early(open()); }
    std::optional<pull::Unproved> pull_early(const store::Store& into) {
        pull::Options wanted = options();
        wanted.prove_later = true;
        pull::Afterwards out;
        pull::pull(into, plan::parse_reference(host + "/a/b:1"), wanted, meter, out);
        return std::move(out.unproved);
    }
    size_t remainders_fetched() const {
        size_t out = 0;
        for (const Halves& one : halves)
            out += server->count("GET /v2/a/b/blobs/" + oci::sha256_of(one.remainder).text());
        return out;
    }
    bool is_unproved() const { return !open().unproved().empty(); }
};

}  // namespace berth::fixtures
