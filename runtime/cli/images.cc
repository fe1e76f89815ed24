// `berth images`: what the store has.
#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"

namespace berth::cli {

namespace {

void print_json(const store::Inventory& inventory) {
    std::string out;
    for (const store::StoredImage& image : inventory.images)
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"digest":)", json_text(image.digest.text()), R"(,"tags":)",
                   json_list(tag_names(image)), R"(,"pulled":)", json_text(iso_time(image.pulled)), R"(,"used":)",
                   json_text(iso_time(image.used)), R"(,"in_use":)", image.in_use ? "true" : "false", R"(,"bytes":)",
                   inventory.bytes(image), R"(,"shared_bytes":)", inventory.shared_bytes(image), R"(,"layers":)",
                   image.layers.size(), "}");
    std::printf("{\"bytes\":%llu,\"images\":[%s\n]}\n", static_cast<unsigned long long>(inventory.bytes()),
                out.c_str());
}

void print_line(size_t width, const std::string& name, const std::string& digest, const std::string& pulled,
                const std::string& used, const std::string& size, const std::string& shared) {
    std::printf("%-*s  %-12s  %-16s  %-16s  %9s  %9s\n", static_cast<int>(width), name.c_str(), digest.c_str(),
                pulled.c_str(), used.c_str(), size.c_str(), shared.c_str());
}

void print_table(const store::Inventory& inventory) {
    size_t width = 5;
    for (const store::StoredImage& image : inventory.images)
        for (const std::string& name : tag_names(image)) width = std::max(width, name.size());
    print_line(width, "IMAGE", "DIGEST", "PULLED", "USED", "SIZE", "SHARED");
    for (const store::StoredImage& image : inventory.images) {
        std::vector<std::string> names = tag_names(image);
        if (names.empty()) names.emplace_back("-");
        for (const std::string& name : names)
            print_line(width, name, short_digest(image.digest.text()), shown_time(image.pulled),
                       image.in_use ? "now" : shown_time(image.used), human_bytes(inventory.bytes(image)),
                       human_bytes(inventory.shared_bytes(image)));
    }
}

}  // namespace

int images(int argc, char** argv) {
    CommandLine line("List the images in the store, the last used first.", "berth images");
    bool json = false;
    line.flag("--json", json, "print JSON");
    if (auto code = line.parse(argc, argv)) return *code;
    store::Inventory inventory = store::take_inventory(store_of_caller());
    json ? print_json(inventory) : print_table(inventory);
    return 0;
}

}  // namespace berth::cli
