// Archives of `docker save`: manifest.json, which says the files of the config and the layers. Source: docker's image
// specification v1.2. And those of `docker export`, which have a root file system alone.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/source/local.hh"
#include "runtime/plan/platform.hh"

namespace berth::oci {

namespace {

using nlohmann::json;

/// An image as manifest.json has it.
struct Saved {
    std::string config;
    std::vector<std::string> tags;
    std::vector<std::string> layers;
};

/// All that an image of an archive consists of, shared by the siblings.
struct Parts {
    std::string what;
    std::string config;
    std::string manifest;
    Digest digest;                   ///< of the manifest
    std::map<Digest, Piece> layers;  ///< by diff_id
};

class DockerSource : public Source {
  public:
    explicit DockerSource(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

    std::optional<Resolution> resolve() override { return Resolution{parts_->digest, ""}; }
    Document manifest(const std::optional<Digest>& digest) override {
        if (digest && digest != parts_->digest)
            throw Error(cat(parts_->what, ": the archive has no manifest ", *digest));
        return {parts_->manifest, "", parts_->digest, ""};
    }
    std::string blob(const Descriptor&) override { return parts_->config; }
    void stream(const Descriptor& blob, const Sink& sink) override {
        auto unpack = make_decompressor(sink);
        naming(parts_->what, "reading a layer", [&] {
            stream_piece(
                parts_->layers.at(blob.digest), [&](std::string_view data) { unpack->feed(data); }, parts_->what);
            unpack->finish();
        });
    }
    std::unique_ptr<Source> sibling() const override { return std::make_unique<DockerSource>(parts_); }

  private:
    std::shared_ptr<const Parts> parts_;
};

std::vector<Saved> parse_list(const std::string& text, const std::string& what) {
    std::string name = cat(what, ", manifest.json");
    json document = parse_json(text, name);
    if (!document.is_array()) throw Error(cat(name, ": is not a list of images"));
    std::vector<Saved> out;
    for (const json& entry : document) {
        if (!entry.is_object()) throw Error(cat(name, ": an image in it is not an object"));
        Saved image{string_member(entry, "Config", name).value_or(""), strings_member(entry, "RepoTags", name),
                    strings_member(entry, "Layers", name)};
        if (image.config.empty()) throw Error(cat(name, ": an image in it has no Config"));
        if (image.layers.size() > layer_limit)
            throw Error(cat(name, ": an image in it has more than ", layer_limit, " layers"));
        out.push_back(std::move(image));
    }
    return out;
}

/// podman writes out the registry, docker leaves its own one away: both mean the same.
bool has_tag(const Saved& image, const plan::Reference& wanted) {
    return std::any_of(image.tags.begin(), image.tags.end(), [&](const std::string& tag) {
        try {
            plan::Reference is = plan::parse_reference(tag);
            return is.kind == plan::Reference::Kind::registry && is.registry == wanted.registry &&
                   is.name == wanted.name && is.tag == wanted.tag;
        } catch (const Error&) {
            return false;  // Not a name that could be asked for.
        }
    });
}

std::string tags_of(const std::vector<Saved>& images) {
    constexpr size_t shown = 20;
    std::vector<std::string> all;
    for (const Saved& image : images) {
        for (const std::string& tag : image.tags) all.push_back(printable(tag));
        if (image.tags.empty()) all.push_back("an image without a name");
    }
    std::string out;
    for (size_t i = 0; i < std::min(all.size(), shown); ++i) out += cat(i == 0 ? "" : ", ", all[i]);
    return all.size() > shown ? cat(out, " and ", all.size() - shown, " more") : out;
}

const Saved& select(const std::vector<Saved>& images, const plan::Reference& wanted, const std::string& what) {
    if (images.empty()) throw Error(cat(what, ": the archive has no image"));
    if (wanted.selector.empty()) {
        if (images.size() == 1) return images[0];
        throw Error(cat(what, ": the archive has ", images.size(),
                        " images; add one of these after a colon: ", tags_of(images)));
    }
    for (const Saved& image : images)
        if (has_tag(image, wanted)) return image;
    throw Error(cat(what, ": no image of that name in the archive, which has: ", tags_of(images)));
}

Piece file_of(const Files& files, const std::string& name, const std::string& what) {
    auto found = files.find(name);
    if (!found)
        throw Error(
            cat(what, ": its manifest.json names ", printable(name), ", which is no file of the archive; refused"));
    return *found;
}

/// Names that are digests have to be those of their content.
void check_name(const std::string& name, const Digest& digest, const std::string& what) {
    std::string stem = name.substr(name.rfind('/') + 1);
    if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
    if (auto named = Digest::from_hex(stem); named && *named != digest)
        throw Error(cat(what, ": the config ", printable(name), " has the digest ", digest, "; refused"));
}

std::string make_manifest(const std::string& config, const std::vector<Descriptor>& layers) {
    auto member = [](std::string_view type, const Digest& digest, uint64_t size) {
        return json{{"mediaType", type}, {"digest", digest.text()}, {"size", size}};
    };
    json out{{"schemaVersion", 2}, {"mediaType", media_type(MediaKind::manifest)}, {"layers", json::array()}};
    out["config"] = member(media_type(MediaKind::config), sha256_of(config), config.size());
    for (const Descriptor& layer : layers)
        out["layers"].push_back(member(media_type(MediaKind::layer), layer.digest, layer.size));
    return out.dump();
}

std::shared_ptr<const Parts> parts_of(const Files& files, const plan::Reference& wanted, const std::string& what) {
    auto list = files.find("manifest.json");
    if (!list) {
        bool is_oci = files.find("oci-layout").has_value();
        throw Error(cat(what, ": has no manifest.json, ",
                        is_oci ? "but an oci-layout; write oci-archive: instead of docker-archive:"
                               : "so it is no archive of docker save"));
    }
    std::vector<Saved> images = parse_list(read_piece(*list, document_limit, what), what);
    const Saved& image = select(images, wanted, what);
    std::string config = read_piece(file_of(files, image.config, what), document_limit, what);
    check_name(image.config, sha256_of(config), what);
    std::vector<Digest> diff_ids = parse_config(config, image.layers.size(), what).diff_ids;
    std::vector<Descriptor> layers;
    std::map<Digest, Piece> pieces;
    for (size_t i = 0; i < diff_ids.size(); ++i) {
        Piece piece = file_of(files, image.layers[i], what);
        layers.push_back({"", diff_ids[i], piece.size});
        pieces.emplace(diff_ids[i], std::move(piece));
    }
    std::string manifest = make_manifest(config, layers);
    Digest digest = sha256_of(manifest);
    return std::make_shared<Parts>(Parts{what, std::move(config), std::move(manifest), digest, std::move(pieces)});
}

std::string make_config(const Digest& diff_id) {
    return json{{"architecture", plan::machine_architecture},
                {"os", "linux"},
                {"config", json::object()},
                {"rootfs", {{"type", "layers"}, {"diff_ids", {diff_id.text()}}}}}
        .dump();
}

}  // namespace

std::unique_ptr<Source> make_export_source(const Piece& tar, const std::string& what, const Advance& advance) {
    Sha256 hash;
    auto update = [&](std::string_view data) {
        hash.update(data);
        if (advance) advance(data.size());
    };
    stream_piece(tar, update, what);
    Digest diff_id = hash.finish();
    std::string config = make_config(diff_id);
    std::string manifest = make_manifest(config, {{"", diff_id, tar.size, std::nullopt}});
    Digest digest = sha256_of(manifest);
    auto parts = std::make_shared<Parts>(
        Parts{what, std::move(config), std::move(manifest), digest, {{diff_id, tar}}});
    return std::make_unique<DockerSource>(std::move(parts));
}

std::unique_ptr<Source> make_docker_source(const Files& files, const plan::Reference& wanted, const std::string& what) {
    return std::make_unique<DockerSource>(parts_of(files, wanted, what));
}

}  // namespace berth::oci
