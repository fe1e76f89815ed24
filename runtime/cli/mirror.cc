// `berth mirror`: keeps the images of a list current in the store, for a store that a site offers.
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/request/image_list.hh"
#include "runtime/store/collect.hh"

namespace berth::cli {

namespace {

constexpr size_t list_limit = 4 << 20;
constexpr size_t digest_limit = 4096;

plan::ImageList read_list(const std::string& file) {
    return plan::parse_image_list(sys::read_file(file, list_limit), file);
}

/// The registry is asked about each image: one that is down is a failure here, and not what a start makes of it.
std::vector<std::string> arguments_for(const plan::Site& from, const store::Store& store) {
    plan::Site site = from;
    site.store.pull = plan::PullPolicy::always;
    std::vector<std::string> out = pull_arguments(site, store.location());
    out.emplace_back("--quiet");
    return out;
}

/// Nothing when it failed, which berth-pull has said in a line.
std::optional<Digest> pull_one(const plan::ImageList::Line& line, std::vector<std::string> arguments,
                               const store::Store& store) {
    arguments.push_back(line.text);
    Child child(pull_program(), arguments);
    std::string output = sys::read_all(child.output(), digest_limit, "what berth-pull prints");
    if (child.wait() != 0) return std::nullopt;
    auto digest = Digest::parse(std::string(trimmed(output)));
    if (!digest) throw Error(cat("pulling ", printable(line.text, 1024), ": berth-pull gives no digest"));
    // Listed is named: an image without a tag stays as long as this goes on.
    store::Lease named = store.lease_image(*digest);
    std::printf("%s %s\n", printable(line.reference.text(), 1024).c_str(), digest->text().c_str());
    std::fflush(stdout);
    return digest;
}

/// Brings the layers of what has just been pulled to share.artifacts, signed unless `key` is empty. False when it
/// failed, as above.
bool publish_one(const plan::ImageList::Line& line, const Digest& digest, const std::string& key,
                 const plan::Site& site, const store::Store& store) {
    plan::Reference pulled = line.reference;
    pulled.digest = digest;
    std::vector<std::string> words{"--quiet", pulled.text()};
    if (!key.empty()) words.insert(words.begin(), {"--sign", key});
    Child child(pull_program(), pull_program_words("publish", site, store, words));
    return child.wait() == 0;
}

bool is_listed(const plan::ImageList& list, const store::StoredTag& tag) {
    return std::any_of(list.lines.begin(), list.lines.end(), [&](const plan::ImageList::Line& line) {
        return line.reference.tag == tag.reference.tag && line.reference.name == tag.reference.name &&
               line.reference.registry == tag.reference.registry;
    });
}

void prune(const plan::ImageList& list, const store::Store& store) {
    store::Inventory inventory = store::take_inventory(store);
    std::vector<store::StoredTag> tags = inventory.stray_tags;
    for (const store::StoredImage& image : inventory.images)
        tags.insert(tags.end(), image.tags.begin(), image.tags.end());
    for (const store::StoredTag& tag : tags) {
        // What was pulled from a file has a record of its own, and no registry's name.
        if (tag.reference.registry.starts_with("_") || is_listed(list, tag)) continue;
        store::remove_tag(store, tag);
        std::printf("removed the tag %s\n", printable(tag.text(), 1024).c_str());
    }
}

struct MirrorOptions {
    bool prunes = false;
    bool publishes = false;
    std::string key;  ///< file of the one that signs what is published; empty: none does
};

/// False when something failed.
bool mirror_one(const plan::ImageList::Line& line, const MirrorOptions& options, const plan::Site& site,
                const store::Store& store) {
    auto digest = pull_one(line, arguments_for(site, store), store);
    return digest && (!options.publishes || publish_one(line, *digest, options.key, site, store));
}

int mirror_list(const plan::ImageList& list, const MirrorOptions& options, const std::string& file) {
    for (const std::string& mistake : list.mistakes) std::fprintf(stderr, "berth: %s\n", mistake.c_str());
    plan::Site site = site_of_caller();
    store::Store store = open_callers_store(site);
    size_t failed = list.mistakes.size();
    for (const plan::ImageList::Line& line : list.lines) failed += mirror_one(line, options, site, store) ? 0 : 1;
    // A line that cannot be read may be any image's, and a list without one is a list that was not written.
    if (options.prunes && (!list.mistakes.empty() || list.lines.empty()))
        throw Error(cat("removing the tags that ", printable(file, 4096), " does not list: ",
                        list.lines.empty() ? "it lists no image" : "not every line of it can be read",
                        "; nothing is removed, correct the list"));
    if (options.prunes) prune(list, store);
    return failed == 0 ? 0 : exit_failure;
}

}  // namespace

int mirror(int argc, char** argv) {
    CommandLine line("Pull each image that a file lists, and go on when one fails.", "berth mirror");
    std::string file;
    MirrorOptions options;
    auto publish = line.flag("--publish", options.publishes,
                             "bring the layers of each to share.artifacts, as berth publish does");
    line.option("--sign", options.key, "with --publish: private key in PEM that signs what is published")
        .needs(publish);
    line.flag("--prune", options.prunes,
              "then remove the tags that the file does not list; berth gc removes their images");
    line.argument("file", file, "one image of a registry a line; # starts a comment").required();
    if (auto code = line.parse(argc, argv)) return *code;
    return mirror_list(read_list(file), options, file);
}

}  // namespace berth::cli
