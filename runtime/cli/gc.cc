// `berth gc`: removes from the store what is old, too much, or of no use.
#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"
#include "runtime/request/size.hh"
#include "runtime/step/scope.hh"
#include "runtime/store/collect.hh"

namespace berth::cli {

int gc(int argc, char** argv) {
    plan::Site site = load_site();
    plan::apply_environment(site, environment_of_this_process());
    CommandLine line("Remove images that were not used for long, and layers of no image.", "berth gc");
    std::string size;
    unsigned days = site.limits.store_age;
    bool dry = false;
    line.option("--size", size,
                "remove the longest unused images until the rest fits (K, M, G, T)");
    line.option("--age", days, "remove images not used for this many days");
    line.flag("--dry-run", dry, "print what would be removed");
    if (auto code = line.parse(argc, argv)) return *code;
    store::KeepLimits limits{size.empty() ? site.limits.store_size : plan::parse_size(size, "--size"),
                             int64_t{24 * 3600} * days};
    store::Store store = store_of_caller();
    if (store.is_offered() && !size.empty())
        throw Error(cat("--size: the store ", printable(store.path(), 4096),
                        " is one of store.shared, whose readers leave no trace of what they use; give --age, longer "
                        "than the longest job"));
    // What containers of ended jobs keep of the store.
    if (!dry) sweep_jobs_on_node(site, caller_of_this_process(), environment_of_this_process());
    auto removed = store::collect(store, limits, dry, false);
    if (!removed) {
        std::fprintf(stderr, "berth: waiting for the pulls into %s to end\n", store.path().c_str());
        removed = store::collect(store, limits, dry, true);
    }
    const char* did = dry ? "would remove" : "removed";
    for (const store::StoredImage& image : removed->images) {
        std::vector<std::string> names = tag_names(image);
        std::printf("%s %s %s\n", did, short_digest(image.digest.text()).c_str(),
                    names.empty() ? "-" : names.front().c_str());
    }
    std::printf("%s %zu images and %zu layers: %s\n", did, removed->images.size(), removed->layers,
                human_bytes(removed->bytes).c_str());
    return 0;
}

}  // namespace berth::cli
