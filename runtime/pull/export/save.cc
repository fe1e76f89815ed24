#include "runtime/pull/export/save.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/pull/export/output_file.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/directory_layer.hh"
#include "runtime/squash/write/writer.hh"
#include "runtime/store/partial.hh"

namespace berth::pull {

namespace {

/// The layers of a container from the base up, and what is said about them.
struct Layers {
    std::vector<Fd> files;
    std::vector<squash::LayerInfo> infos;
    std::vector<squash::Tree> trees;
    squash::FileConfig config;
    bool served = true;      ///< the first tree is shown with the modes of mount.modes
    bool for_enroot = true;  ///< the config is ours to write into the files that Enroot reads
    store::Lease lease = {};
};

void add_file(Layers& layers, Fd file, const std::string& what) {
    squash::LayerInfo info;
    layers.trees.push_back(squash::read_tree(file.get(), what, static_cast<uint32_t>(layers.infos.size()), info));
    layers.infos.push_back(info);
    layers.files.push_back(std::move(file));
}

/// `directory` packed into a file that has no name.
void add_directory(Layers& layers, int directory, bool overlay, const OutputFile& output, const std::string& what) {
    Fd file = output.scratch();
    // Two buffers a thread keep all of them busy; the file that is written holds two more.
    unsigned threads = usable_cpus();
    squash::CompressorPool pool({}, {.threads = threads, .buffers = 2 * threads + 3});
    squash::LayerWriter writer(file.get(), &pool);
    squash::LeftOut left_out =
        squash::add_directory(writer, directory, {overlay, ::geteuid(), ::getegid(), !overlay}, what);
    writer.finish();
    if (left_out.devices > 0)
        std::fprintf(stderr, "berth: saving %s: %llu device nodes are left out\n", what.c_str(),
                     static_cast<unsigned long long>(left_out.devices));
    if (left_out.unreadable > 0)
        std::fprintf(stderr,
                     "berth: saving %s: %llu files and directories of other users that you may not read are "
                     "left out, /%s the first\n",
                     what.c_str(), static_cast<unsigned long long>(left_out.unreadable),
                     printable(left_out.first_unreadable, 1024).c_str());
    add_file(layers, std::move(file), what);
}

uint64_t chunks_here(const store::Store& store) {
    uint64_t out = 0;
    for (const Digest& manifest : store::partials(store))
        if (auto partial = store::find_partial(store, manifest, store::Access::read)) out += partial->map->here();
    return out;
}

/// A container can end before all of its image is here (store.start): it comes as long as the container's process
/// lives, which waits for this.
void wait_for_image(const store::Store& store, const Digest& digest, const std::string& name) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::seconds(60), told_after = std::chrono::seconds(1);
    auto since = Clock::now(), last_growth = since;
    uint64_t here = 0;
    bool told = false;
    while (!store.has_image(digest) && !store::partials(store).empty()) {
        if (uint64_t now = chunks_here(store); now != here) here = now, last_growth = Clock::now();
        if (Clock::now() - last_growth > patience) return;
        if (bool is_long = Clock::now() - since > told_after; is_long && !std::exchange(told, true))
            std::fprintf(stderr, "berth: saving the container %s: waiting for the rest of its image\n",
                         printable(name).c_str());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

Layers layers_of_stored(const SaveRequest& request, const Digest& digest) {
    store::Store store = store::Store::open(request.store);
    wait_for_image(store, digest, request.name);
    Layers out;
    out.lease = store.lease_image(digest);
    std::string what = cat("image ", digest);
    oci::ImageDescription image = describe(store, digest, what);
    out.trees.push_back(merged_tree(store, image.diff_ids, what, out.infos));
    for (const Digest& diff_id : image.diff_ids) out.files.push_back(store.open_layer(diff_id));
    out.config = {image.config, digest.text(), request.reference};
    return out;
}

Layers layers_of_file(const SaveRequest& request, const OutputFile& output) {
    const std::string& path = request.image_file;
    ContainerImage image = open_image_file(path);
    Layers out;
    out.config = {image.index.config(), "", path};
    out.for_enroot = false;
    if (!image.directory.empty()) {
        out.served = false;
        add_directory(out, sys::open_file(path, O_RDONLY | O_DIRECTORY).get(), false, output, printable(path, 4096));
        return out;
    }
    Fd file = std::move(image.layers.at(0));
    squash::ImageTree read = tree_of_image_file(file.get(), path);
    if (auto carried = read.place.size == 0 ? squash::read_config(file.get(), path) : std::nullopt) {
        out.config = *carried;
        out.for_enroot = true;
    }
    out.infos = std::move(read.layers);
    out.files = squash::for_each_layer(std::move(file), out.infos.size());
    out.trees.push_back(std::move(read.tree));
    if (uint64_t names = squash::whiteout_names(out.trees.back()); names > 0)
        std::fprintf(stderr,
                     "berth: saving %s: %llu files of %s whose names begin with .wh. are left out: in an image such a "
                     "name means a removed file\n",
                     printable(request.name).c_str(), static_cast<unsigned long long>(names),
                     printable(path, 4096).c_str());
    return out;
}

/// What is said of the image that the file is of, for a SIF file.
SifOrigin sif_origin(const SaveRequest& request, const Layers& layers) {
    SifOrigin out{.process = layers.config.process,
                  .bootstrap = "localimage",
                  .from = request.upper < 0 ? request.image_file : request.name,
                  .identity = random_word(),
                  .time = static_cast<int64_t>(::time(nullptr))};
    if (out.process.architecture.empty()) out.process.architecture = oci::this_machine().architecture;
    return out;
}

/// Files that are ours to write into this one.
std::vector<squash::AddedFile> added_to(const Layers& layers, const SifOrigin& origin, const ImportOptions& options) {
    auto of_apptainer = [](const squash::Tree& tree) { return has_file(tree, ".singularity.d"); };
    bool is_whole = options.sif ? std::ranges::any_of(layers.trees, of_apptainer) : !layers.for_enroot;
    std::vector<squash::AddedFile> out;
    if (!is_whole) out = added_files(origin, options);
    // What was written in the container is what was meant.
    std::erase_if(out, [&](const squash::AddedFile& file) { return has_file(layers.trees.back(), file.path); });
    return out;
}

}  // namespace

void save_container(const SaveRequest& request, const std::string& path, const ImportOptions& options) {
    std::string what = printable(path, 4096);
    OutputFile output(path);
    if (!options.force) output.refuse_existing();
    Layers layers = request.digest ? layers_of_stored(request, *request.digest) : layers_of_file(request, output);
    if (request.upper >= 0) add_directory(layers, request.upper, true, output, cat("container ", request.name));
    if (layers.served && request.upper >= 0)
        squash::restore_modes(layers.trees.back(), layers.trees.front(), request.modes);
    SifOrigin origin = sif_origin(request, layers);
    std::vector<squash::AddedFile> added = added_to(layers, origin, options);
    squash::Tree tree = squash::merge(std::move(layers.trees));
    write_image_file({tree, layers.files, layers.infos}, origin, layers.config, std::move(added), options, output.fd(),
                     what);
    output.publish(options.force);
}

}  // namespace berth::pull
