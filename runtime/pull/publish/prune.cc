#include "runtime/pull/publish/prune.hh"

#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/trust/signature/attachment.hh"

namespace berth::pull {

namespace {

class Pruning {
  public:
    Pruning(const plan::Reference& repository, const RegistryFor& registry, bool dry, Meter& meter)
        : registry_for_(registry),
          place_(cat(repository.registry, "/", repository.name)),
          target_(repository, registry(repository)),
          dry_(dry),
          meter_(meter) {}

    Pruned run();

  private:
    bool has_image(const oci::Artifact& artifact);
    oci::Registry& repository_of(const std::string& name);
    void look_at(const std::string& tag);
    void remove(const oci::Document& document, const oci::Artifact& artifact);
    void remove_tag(const std::string& tag);
    void remove_from_list(const Digest& subject);

    const RegistryFor& registry_for_;
    std::string place_;
    oci::Registry target_;
    bool dry_;
    Meter& meter_;
    std::map<std::string, oci::Registry> images_;  ///< repositories that answer
    Pruned out_;
};

Pruned Pruning::run() {
    meter_.begin(Phase::asking, cat("asking ", place_, " what is published there"));
    for (const std::string& tag : target_.list_tags())
        if (oci::is_artifact_tag(tag)) look_at(tag);
    return std::move(out_);
}

void Pruning::look_at(const std::string& tag) {
    std::string what = cat(place_, ":", tag);
    std::optional<oci::Document> document = target_.find_attached(tag, "published layers");
    if (!document) return;
    oci::Artifact artifact{{"", document->digest}, "", {}};
    try {
        artifact = oci::parse_artifact(document->bytes, what);
        if (has_image(artifact)) {
            ++out_.kept;
            return;
        }
    } catch (const Error& problem) {
        out_.left.push_back(cat(what, ": left, since its image is not known: ", problem.what()));
        return;
    }
    if (!dry_) remove(*document, artifact);
    out_.removed.push_back(tag);
}

/// Throws Error where that cannot be known.
bool Pruning::has_image(const oci::Artifact& artifact) {
    if (artifact.image.empty()) throw Error("it does not say which repository its image is in");
    std::string digest = artifact.subject.digest.text();
    return repository_of(artifact.image).find_attached(digest, "the image").has_value();
}

/// A registry says "not found" of what the caller may not see, too: one that does not list its tags is not believed.
oci::Registry& Pruning::repository_of(const std::string& name) {
    auto known = images_.find(name);
    if (known != images_.end()) return known->second;
    plan::Reference image = plan::parse_reference(name);
    oci::RegistryOptions options = registry_for_(image);
    options.mirrors.clear();
    oci::Registry registry(image, options);
    registry.list_tags();
    return images_.emplace(name, std::move(registry)).first->second;
}

void Pruning::remove(const oci::Document& document, const oci::Artifact& artifact) {
    remove_from_list(artifact.subject.digest);
    remove_tag(trust::signature_tag(document.digest));
    target_.delete_manifest(document.digest);
}

void Pruning::remove_tag(const std::string& tag) {
    if (auto found = target_.find_attached(tag)) target_.delete_manifest(found->digest);
}

/// Of a registry without the referrers API, which has the list at a tag.
void Pruning::remove_from_list(const Digest& subject) {
    std::string tag = oci::referrers_tag(subject);
    auto found = target_.find_attached(tag, "referrers");
    if (!found) return;
    std::string left = oci::without_referrer(found->bytes, cat("the referrers of ", subject));
    if (left == found->bytes) return;
    if (left.empty())
        target_.delete_manifest(found->digest);
    else
        target_.put_manifest(tag, std::string(oci::media_type(oci::MediaKind::index)), left);
}

}  // namespace

Pruned prune_published(const plan::Reference& repository, const RegistryFor& registry, bool dry, Meter& meter) {
    return Pruning(repository, registry, dry, meter).run();
}

}  // namespace berth::pull
