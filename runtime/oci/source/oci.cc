// OCI image layouts: oci-layout, index.json and blobs/, by the OCI image specification.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/source/local.hh"

namespace berth::oci {

namespace {

using nlohmann::json;

/// An image that index.json names.
struct Named {
    Descriptor descriptor;
    std::string name;  ///< empty for none
};

class OciSource : public Source {
  public:
    OciSource(std::shared_ptr<const Files> files, std::string selector, std::string what)
        : files_(std::move(files)), selector_(std::move(selector)), what_(std::move(what)) {}

    std::optional<Resolution> resolve() override { return Resolution{root().digest, ""}; }
    Document manifest(const std::optional<Digest>& digest) override;
    std::string blob(const Descriptor& blob) override;
    void stream(const Descriptor& blob, const Sink& sink) override;
    std::unique_ptr<Source> sibling() const override { return std::make_unique<OciSource>(files_, selector_, what_); }

  private:
    const Descriptor& root();
    bool is_of_skopeo() const;
    void check_layout() const;
    std::vector<Named> images() const;
    Descriptor select(const std::vector<Named>& images) const;
    Piece piece(const Digest& digest) const;
    std::string required(const std::string& name, const char* missing) const;
    std::string verified(const Digest& digest) const;

    std::shared_ptr<const Files> files_;
    std::string selector_;
    std::string what_;
    std::optional<Descriptor> root_;
};

/// "a, b or sha256:..." for people; the first few.
std::string listed(const std::vector<Named>& images) {
    constexpr size_t shown = 20;
    std::string out;
    for (size_t i = 0; i < std::min(images.size(), shown); ++i)
        out +=
            cat(i == 0 ? "" : ", ",
                images[i].name.empty() ? images[i].descriptor.digest.text() : printable(images[i].name));
    return images.size() > shown ? cat(out, " and ", images.size() - shown, " more") : out;
}

std::string OciSource::required(const std::string& name, const char* missing) const {
    auto found = files_->find(name);
    if (!found) throw Error(cat(what_, ": has no ", name, missing));
    return read_piece(*found, document_limit, what_);
}

/// A folder as skopeo's dir: has it, which people take for a layout.
bool OciSource::is_of_skopeo() const {
    auto version = files_->find("version");
    return version && version->size < 100 &&
           read_piece(*version, 100, what_).starts_with("Directory Transport Version:");
}

void OciSource::check_layout() const {
    if (!files_->find("oci-layout") && is_of_skopeo())
        throw Error(cat(what_, ": has no oci-layout, since it is a folder of skopeo's dir: form; make a layout of it "
                               "with skopeo copy dir:FOLDER oci:OTHER"));
    bool is_docker = !files_->find("oci-layout") && files_->find("manifest.json");
    json layout = parse_json(
        required("oci-layout",
                 is_docker ? ", but a manifest.json as of docker save; write docker-archive: instead of oci-archive:"
                           : ", so it is no OCI image layout"),
        what_);
    std::string version = layout.is_object() ? string_member(layout, "imageLayoutVersion", what_).value_or("") : "";
    if (!version.starts_with("1."))
        throw Error(cat(what_, ": an image layout of version \"", printable(version),
                        "\", which is not supported, only 1.0.0"));
}

std::vector<Named> OciSource::images() const {
    std::string text = required("index.json", ", so it is no OCI image layout");
    auto parsed = parse_manifest(text, "", cat(what_, ", index.json"));
    auto* index = std::get_if<ImageIndex>(&parsed);
    if (index == nullptr) throw Error(cat(what_, ": its index.json is not an image index"));
    // The same document once more, for what only layouts have: parse_manifest keeps the entries that are images, in
    // their order.
    json document = parse_json(text, what_);
    const json& entries = *array_member(document, "manifests", what_);
    if (index->entries.empty() && !index->unreadable.empty()) throw Error(index->unreadable[0].problem);
    std::vector<Named> out;
    size_t next = 0;
    for (const json& entry : entries) {
        if (next == index->entries.size()) break;
        const Descriptor& descriptor = index->entries[next].descriptor;
        if (entry.value("digest", json()) != descriptor.digest.text() ||
            entry.value("mediaType", json()) != descriptor.media_type)
            continue;
        ++next;
        const json* annotations = object_member(entry, "annotations", what_);
        std::string name = annotations == nullptr
                               ? ""
                               : string_member(*annotations, "org.opencontainers.image.ref.name", what_).value_or("");
        out.push_back({descriptor, name});
    }
    return out;
}

Descriptor OciSource::select(const std::vector<Named>& images) const {
    if (images.empty()) throw Error(cat(what_, ": the layout has no image"));
    if (selector_.empty()) {
        if (images.size() == 1) return images[0].descriptor;
        throw Error(cat(what_, ": the layout has ", images.size(),
                        " images; add one of these after a colon: ", listed(images)));
    }
    auto digest = Digest::parse(selector_[0] == '@' ? selector_.substr(1) : selector_);
    const Named* found = nullptr;
    for (const Named& image : images) {
        if (image.name != selector_ && digest != image.descriptor.digest) continue;
        if (found != nullptr && found->descriptor.digest != image.descriptor.digest)
            throw Error(cat(what_, ": the layout has two images of that name, ", found->descriptor.digest, " and ",
                            image.descriptor.digest, "; choose one by its digest"));
        found = &image;
    }
    if (found != nullptr) return found->descriptor;
    // An image inside of an index is not named in index.json.
    if (digest && files_->find(cat("blobs/sha256/", digest->hex()))) return {"", *digest, piece(*digest).size};
    throw Error(cat(what_, ": no image of that name in the layout, which has: ", listed(images)));
}

const Descriptor& OciSource::root() {
    if (!root_) {
        check_layout();
        root_ = select(images());
    }
    return *root_;
}

Piece OciSource::piece(const Digest& digest) const {
    auto found = files_->find(cat("blobs/sha256/", digest.hex()));
    if (!found) throw Error(cat(what_, ": the blob ", digest, " is not in the layout; it is incomplete"));
    return *found;
}

std::string OciSource::verified(const Digest& digest) const {
    std::string bytes = read_piece(piece(digest), document_limit, what_);
    Digest is = sha256_of(bytes);
    if (is != digest) throw Error(cat(what_, ": the blob ", digest, " has the digest ", is, "; refused"));
    return bytes;
}

Document OciSource::manifest(const std::optional<Digest>& digest) {
    const Descriptor& wanted = root();
    Digest asked = digest.value_or(wanted.digest);
    bool is_root = asked == wanted.digest;
    Document out{verified(asked), is_root ? wanted.media_type : "", asked, ""};
    if (is_root && out.bytes.size() != wanted.size)
        throw Error(cat(what_, ": the manifest ", wanted.digest, " has ", out.bytes.size(), " bytes instead of ",
                        wanted.size, "; refused"));
    return out;
}

std::string OciSource::blob(const Descriptor& blob) {
    std::string bytes = blob.data.value_or("");
    if (!blob.data)
        stream(blob, [&](std::string_view data) { bytes += data; });
    if (Digest is = sha256_of(bytes); is != blob.digest)
        throw Error(cat(what_, ": the blob ", blob.digest, " has the digest ", is, "; refused"));
    return bytes;
}

void OciSource::stream(const Descriptor& blob, const Sink& sink) {
    Piece found = piece(blob.digest);
    if (found.size != blob.size)
        throw Error(
            cat(what_, ": the blob ", blob.digest, " has ", found.size, " bytes instead of ", blob.size, "; refused"));
    stream_piece(found, sink, what_);
}

}  // namespace

std::unique_ptr<Source> make_oci_source(std::shared_ptr<const Files> files, const std::string& selector,
                                        const std::string& what) {
    return std::make_unique<OciSource>(std::move(files), selector, what);
}

}  // namespace berth::oci
