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

/// A store of the site, as a value.
struct SharedInventory {
    std::string path;
    store::Inventory inventory;
};

std::string json_of(const store::Inventory& inventory, const store::StoredImage& image) {
    return cat(R"(  {"digest":)", json_text(image.digest.text()), R"(,"tags":)", json_list(tag_names(image)),
               R"(,"pulled":)", json_text(iso_time(image.pulled)), R"(,"used":)", json_text(iso_time(image.used)),
               R"(,"in_use":)", image.in_use ? "true" : "false", R"(,"bytes":)", inventory.bytes(image),
               R"(,"shared_bytes":)", inventory.shared_bytes(image), R"(,"layers":)", image.layers.size(), "}");
}

std::string json_of(const store::ComingImage& image) {
    return cat(R"(  {"digest":)", json_text(image.digest.text()), R"(,"tags":)", json_list(tag_names(image)),
               R"(,"bytes":)", image.bytes, R"(,"here_bytes":)", image.here_bytes, "}");
}

/// The members of an object, without its braces.
std::string json_of(const store::Inventory& inventory) {
    std::string out;
    for (const store::StoredImage& image : inventory.images)
        out += cat(out.empty() ? "\n" : ",\n", json_of(inventory, image));
    return cat(R"("bytes":)", inventory.bytes(), R"(,"hot_bytes":)", inventory.hot_bytes, R"(,"images":[)", out, "\n]");
}

void print_json(const store::Inventory& inventory, const std::vector<SharedInventory>& shared) {
    std::string stores;
    for (const SharedInventory& one : shared)
        stores += cat(stores.empty() ? "" : ",", R"({"path":)", json_text(one.path), ",", json_of(one.inventory), "}");
    std::string coming;
    for (const store::ComingImage& image : inventory.coming)
        coming += cat(coming.empty() ? "\n" : ",\n", json_of(image));
    std::printf("{%s,\"coming\":[%s],\"shared\":[%s]}\n", json_of(inventory).c_str(), coming.c_str(), stores.c_str());
}

void print_line(size_t width, const std::string& name, const std::string& digest, const std::string& pulled,
                const std::string& used, const std::string& size, const std::string& shared) {
    std::printf("%-*s  %-12s  %-16s  %-16s  %9s  %9s\n", static_cast<int>(width), name.c_str(), digest.c_str(),
                pulled.c_str(), used.c_str(), size.c_str(), shared.c_str());
}

/// Who uses an image of a store of the site is not known.
void print_table(const store::Inventory& inventory, bool uses_known = true) {
    size_t width = 5;
    for (const store::StoredImage& image : inventory.images)
        for (const std::string& name : tag_names(image)) width = std::max(width, name.size());
    print_line(width, "IMAGE", "DIGEST", "PULLED", "USED", "SIZE", "SHARED");
    for (const store::StoredImage& image : inventory.images) {
        std::vector<std::string> names = tag_names(image);
        if (names.empty()) names.emplace_back("-");
        for (const std::string& name : names)
            print_line(width, name, short_digest(image.digest.text()), shown_time(image.pulled),
                       !uses_known    ? "-"
                       : image.in_use ? "now"
                                      : shown_time(image.used),
                       human_bytes(inventory.bytes(image)),
                       human_bytes(inventory.shared_bytes(image)));
    }
}

void print_coming(const std::vector<store::ComingImage>& images) {
    if (images.empty()) return;
    std::printf("\nstarted, and coming while they run:\n");
    for (const store::ComingImage& image : images) {
        std::vector<std::string> names = tag_names(image);
        if (names.empty()) names.emplace_back("-");
        for (const std::string& name : names)
            std::printf("%s  %s  %s of %s\n", name.c_str(), short_digest(image.digest.text()).c_str(),
                        human_bytes(image.here_bytes).c_str(), human_bytes(image.bytes).c_str());
    }
}

void print_tables(const store::Inventory& inventory, const std::vector<SharedInventory>& shared,
                  const std::string& path) {
    print_table(inventory);
    if (inventory.images.empty() && inventory.coming.empty() && shared.empty())
        std::printf("none in %s; each node has a store of its own, unless store.path is on a path that all share: "
                    "srun -w NODE berth images\n", printable(path, 4096).c_str());
    if (inventory.hot_bytes != 0)
        std::printf("\nfiles that starts read, kept unpacked: %s\n", human_bytes(inventory.hot_bytes).c_str());
    print_coming(inventory.coming);
    for (const SharedInventory& one : shared) {
        std::printf("\nin the shared store %s, which all users read:\n", printable(one.path, 4096).c_str());
        print_table(one.inventory, false);
    }
}

/// One that cannot be listed is told, and the others are listed.
std::vector<SharedInventory> shared_inventories(const store::Store& store) {
    std::vector<SharedInventory> out;
    for (const store::Reader& one : store.shared()) try {
            out.push_back({one.path(), store::take_inventory(one)});
        } catch (const Error& error) {
            std::fprintf(stderr, "berth: %s\n", error.what());
        }
    return out;
}

}  // namespace

int images(int argc, char** argv) {
    CommandLine line("List the images in the store, the last used first.", "berth images");
    bool json = false;
    line.flag("--json", json, "print JSON");
    if (auto code = line.parse(argc, argv)) return *code;
    store::Store store = store_of_caller();
    store::Inventory inventory = store::take_inventory(store);
    std::vector<SharedInventory> shared = shared_inventories(store);
    json ? print_json(inventory, shared) : print_tables(inventory, shared, store.path());
    return 0;
}

}  // namespace berth::cli
