// `berth inspect`: what the store knows of one image.
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/store/signature_record.hh"

namespace berth::cli {

namespace {

std::vector<std::string> layer_files(const store::Inventory& inventory, const store::StoredImage& image) {
    std::vector<std::string> out;
    for (size_t layer : image.layers) out.push_back(inventory.layers[layer].file);
    return out;
}

std::vector<store::SignatureRecord::Admitted> admitted(const store::Store& store, const store::StoredImage& image) {
    auto text = store.find_document(image.digest, store::signature_record_file);
    return text ? store::parse_signatures(*text).admitted : std::vector<store::SignatureRecord::Admitted>{};
}

std::string json_signatures(const store::Store& store, const store::StoredImage& image) {
    std::string out;
    for (const auto& one : admitted(store, image)) {
        std::string signers;
        for (const auto& signer : one.signers)
            signers += cat(signers.empty() ? "" : ",", R"({"key":)", json_text(signer.key), R"(,"from":)",
                           json_text(signer.from), R"(,"name":)", json_text(signer.name), "}");
        out += cat(out.empty() ? "" : ",", R"({"image":)", json_text(one.name), R"(,"rule":)", json_text(one.rule),
                   R"(,"signers":[)", signers, "]}");
    }
    return "[" + out + "]";
}

/// The registry's own documents are JSON already, and were checked when they came.
void print_json(const store::Store& store, const store::Inventory& inventory, const store::StoredImage& image) {
    std::string manifest = store.read_document(image.digest, "manifest.json"),
                config = store.read_document(image.digest, "config.json");
    std::string out =
        cat(R"({"digest":)", json_text(image.digest.text()), R"(,"tags":)", json_list(tag_names(image)),
            R"(,"pulled":)", json_text(iso_time(image.pulled)), R"(,"used":)", json_text(iso_time(image.used)),
            R"(,"in_use":)", image.in_use ? "true" : "false", R"(,"bytes":)", inventory.bytes(image),
            R"(,"shared_bytes":)", inventory.shared_bytes(image), R"(,"files":)",
            json_list(layer_files(inventory, image)), R"(,"signatures":)", json_signatures(store, image),
            R"(,"manifest":)", manifest, R"(,"config":)", config, "}\n");
    std::fputs(out.c_str(), stdout);
}

void print_field(const char* name, const std::string& value) {
    if (!value.empty()) std::printf("%-11s %s\n", name, printable(value, value.size()).c_str());
}

std::string words(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : " ") + text;
    return out;
}

void print_config(const plan::ImageConfig& config) {
    print_field("platform", "linux/" + config.architecture);
    print_field("entrypoint", words(config.entrypoint));
    print_field("command", words(config.cmd));
    print_field("workdir", config.working_dir);
    print_field("user", config.user.empty() ? "" : config.user + " (not followed: the process runs as the caller)");
    for (const std::string& variable : config.env) print_field("env", variable);
}

void print_text(const store::Store& store, const store::Inventory& inventory, const store::StoredImage& image) {
    print_field("digest", image.digest.text());
    for (const std::string& name : tag_names(image)) print_field("tag", name);
    print_field("pulled", shown_time(image.pulled));
    print_field("used", image.in_use ? "now" : shown_time(image.used));
    print_field("size", cat(human_bytes(inventory.bytes(image)), ", ", human_bytes(inventory.shared_bytes(image)),
                            " of it shared with other images"));
    squash::Index index = store.open_image(image.digest).index;
    for (const auto& one : admitted(store, image))
        print_field("signature", cat(one.signers.empty() ? "none wanted" : store::signers_text(one), ", as ", one.name,
                                     " by ", one.rule));
    print_config(index.config());
    print_field("files", cat(index.inode_count()));
    for (const squash::LayerInfo& layer : index.layers()) print_field("layer", layer.name);
}

/// Of the store that has the image, the user's own one first; `place` becomes the path of a shared one.
store::Inventory inventory_with(const std::string& text, const store::Store& store, std::string& place) {
    store::Inventory own = store::take_inventory(store);
    if (own.find(text) != nullptr) return own;
    for (const store::Reader& one : store.shared())
        if (store::Inventory other = store::take_inventory(one); other.find(text) != nullptr) {
            place = one.path();
            return other;
        }
    return own;
}

}  // namespace

int inspect(int argc, char** argv) {
    CommandLine line("Print digest, size, settings and layers of an image.", "berth inspect");
    std::string text;
    bool json = false;
    line.flag("--json", json, "print JSON, with the image's manifest and config");
    line.argument("image", text, "REGISTRY/NAME:TAG, NAME@sha256:..., or the start of a digest").required();
    if (auto code = line.parse(argc, argv)) return *code;
    store::Store store = store_of_caller();
    std::string place;
    store::Inventory inventory = inventory_with(text, store, place);
    const store::StoredImage& image = find_image(inventory, text, store);
    if (!json) print_field("shared", place);
    json ? print_json(store, inventory, image) : print_text(store, inventory, image);
    return 0;
}

}  // namespace berth::cli
