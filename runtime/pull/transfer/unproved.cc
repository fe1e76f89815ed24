#include "runtime/pull/transfer/unproved.hh"

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/transfer/published.hh"
#include "runtime/squash/write/layer_check.hh"
#include "runtime/store/collect.hh"

namespace berth::pull {

namespace {

/// In the image's folder: a diff_id a line.
constexpr const char* unproved_file = "unproved";

/// The line that says what is wrong; empty when the layer is proved, or has gone. Throws Error when it cannot be known.
std::string disproof(const store::Store& store, const Unproved& unproved, const Digest& diff_id) {
    std::string what = cat(unproved.what, ", layer ", diff_id);
    Fd file = store.open_layer(diff_id);
    const oci::PublishedLayer* layer = unproved.artifact.find(diff_id);
    if (!file || layer == nullptr) return {};
    try {
        prove_published(*unproved.source, *layer, file.get(), what, [] {});
        return {};
    } catch (const squash::LayerDiffers& problem) {
        store::discard_layer(store, store.layer_file(diff_id), file.get());
        return cat(what, " has run on its publisher's signature and is not what the image has: ", problem.what(),
                   "; removed from the store, the next start converts it");
    }
}

}  // namespace

bool has_unproved(const store::Store& store, const Digest& image) {
    return !store.find_document(image, unproved_file).value_or("").empty();
}

std::vector<Digest> unproved_layers(const store::Store& store) {
    std::vector<Digest> out;
    std::string folder = cat(printable(store.path(), 4096), "/images");
    for (const std::string& hex : sys::list_directory(store.directory("images").get(), folder)) {
        auto image = Digest::from_hex(hex);
        if (!image) continue;
        for (const std::string& line : split(store.find_document(*image, unproved_file).value_or(""), '\n'))
            if (auto layer = Digest::parse(line)) out.push_back(*layer);
    }
    return out;
}

void note_unproved(const store::Store& store, const Digest& image, const std::vector<Digest>& layers) {
    std::string text;
    for (const Digest& layer : layers) text += cat(layer, '\n');
    store.put_document(image, unproved_file, text);
}

std::vector<std::string> prove(const store::Store& store, const Unproved& unproved) {
    std::vector<std::string> problems;
    std::vector<Digest> left;
    for (const Digest& diff_id : unproved.layers) {
        std::string problem;
        bool is_known = false;
        try {
            problem = disproof(store, unproved, diff_id);
            is_known = true;
        } catch (const Error&) {
            // berth verify --deep finds out.
        }
        if (!problem.empty()) problems.push_back(problem);
        if (!problem.empty() || !is_known) left.push_back(diff_id);
    }
    if (store.own().has_manifest(unproved.image)) note_unproved(store, unproved.image, left);
    return problems;
}

}  // namespace berth::pull
