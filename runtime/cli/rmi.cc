// `berth rmi`: removes images from the store.
#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/store/collect.hh"

namespace berth::cli {

namespace {

/// A removal waits for pulls; nobody should wonder about that.
void report_pulls(const store::Store& store) {
    if (!store.hold_off_pulls(false))
        std::fprintf(stderr, "berth: waiting for the pulls into %s to end\n", printable(store.path(), 4096).c_str());
}

/// A tag among several goes alone; the last one, or a digest, takes the image along.
void remove(const store::Store& store, const std::string& text) {
    store::Inventory inventory = store::take_inventory(store);
    const store::StoredImage& image = find_image(inventory, text, store);
    auto named = std::find_if(image.tags.begin(), image.tags.end(), [&](const store::StoredTag& tag) {
        return !text.starts_with("sha256:") && text.find('@') == text.npos &&
               plan::parse_reference(text).text() == tag.text();
    });
    if (named != image.tags.end() && image.tags.size() > 1) {
        store::remove_tag(store, *named);
        std::printf("removed the tag %s; the image %s has others\n", printable(named->text(), 1024).c_str(),
                    short_digest(image.digest.text()).c_str());
        return;
    }
    store::Removed removed = store::remove_image(store, image.digest);
    std::printf("removed %s with %zu layers: %s\n", image.digest.text().c_str(), removed.layers,
                human_bytes(removed.bytes).c_str());
}

}  // namespace

int rmi(int argc, char** argv) {
    CommandLine line("Remove images from the store, with the layers that no other image has.", "berth rmi");
    std::vector<std::string> texts;
    line.argument("images", texts, "REGISTRY/NAME:TAG, NAME@sha256:..., or the start of a digest").required();
    if (auto code = line.parse(argc, argv)) return *code;
    store::Store store = store_of_caller();
    report_pulls(store);
    int code = 0;
    for (const std::string& text : texts) try {
            remove(store, text);
        } catch (const Error& error) {
            // The others are removed all the same.
            std::fprintf(stderr, "berth: %s\n", error.what());
            code = error.exit_code();
        }
    return code;
}

}  // namespace berth::cli
