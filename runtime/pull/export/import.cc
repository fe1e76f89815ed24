#include "runtime/pull/export/import.hh"

#include <fcntl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/pull/export/output_file.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/format/super.hh"

namespace berth::pull {

namespace {

constexpr uint64_t copied_at_once = 8 << 20;

squash::Copied told(Meter& meter, const std::string& doing) {
    return [&meter, doing, before = uint64_t{0}](uint64_t bytes, uint64_t total) mutable {
        if (bytes == 0) meter.begin(Phase::writing, doing, total);
        meter.advance(bytes - std::exchange(before, bytes));
    };
}

/// An image as a definition file names it: by its digest, so that one image is one file whatever it is called.
SifOrigin sif_origin(const plan::Reference& reference, const Digest& digest, const oci::ImageDescription& image) {
    SifOrigin out{.process = image.config, .identity = digest.hex()};
    bool of_registry = reference.kind == plan::Reference::Kind::registry;
    out.bootstrap = of_registry ? "docker" : "oci";
    out.from = cat(of_registry ? cat(reference.registry, "/", reference.name, "@") : "", digest);
    return out;
}

}  // namespace

void import_image(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                  const std::string& path, const ImportOptions& options, Meter& meter) {
    std::string what = printable(path, 4096);
    Digest manifest = store.image_of(digest).value_or(digest);
    store::Lease lease = store.lease(manifest);
    oci::ImageDescription image = describe(store, digest, cat("image ", digest));
    OutputFile output(path);
    if (!options.force) output.refuse_existing();
    meter.begin(Phase::merging, cat("merging the ", image.diff_ids.size(), " layers of image ", digest));
    std::vector<squash::LayerInfo> infos;
    squash::Tree tree = merged_tree(store, image.diff_ids, cat("image ", digest), infos);
    std::vector<Fd> layers;
    for (const Digest& diff_id : image.diff_ids) layers.push_back(store.open_layer(diff_id));
    SifOrigin origin = sif_origin(reference, digest, image);
    read_config_text(origin, store.read_document(manifest, "config.json"));
    write_image_file({tree, layers, infos}, origin, squash::FileConfig{image.config, digest.text(), reference.text()},
                     added_files(origin, options), options, output.fd(), what, told(meter, cat("writing ", what)));
    meter.begin(Phase::saving, cat("saving ", what, " to disk"));
    output.publish(options.force);
}

namespace {

/// Bytes of a file as they are.
void copy(int file, uint64_t start, uint64_t end, int to, const std::string& what, Meter& meter) {
    meter.begin(Phase::writing, what, end - start);
    for (auto at = static_cast<off_t>(start); static_cast<uint64_t>(at) < end;) {
        size_t most = std::min<uint64_t>(end - static_cast<uint64_t>(at), copied_at_once);
        ssize_t sent = sys::uninterrupted([&] { return ::sendfile(to, file, &at, most); });
        if (sent < 0) throw SysError(what);
        if (sent == 0) throw Error(cat(what, ": the file has become shorter meanwhile"));
        meter.advance(static_cast<uint64_t>(sent));
    }
}

/// The tree as a file of another form than that which it was read from.
void write_anew(const squash::ImageTree& read, int file, const std::string& from,
                const std::optional<squash::FileConfig>& carried, const ImportOptions& options, int to,
                const std::string& what, Meter& meter) {
    Fd once_more(::fcntl(file, F_DUPFD_CLOEXEC, 3));
    if (!once_more) throw SysError(what);
    std::vector<Fd> layers = squash::for_each_layer(std::move(once_more), read.layers.size());
    SifOrigin origin{
        .process = carried ? carried->process : open_image_file(cat("/proc/self/fd/", file)).index.config(),
        .bootstrap = "localimage",
        .from = from.substr(from.rfind('/') + 1),
        .identity = random_word(),
        .time = sys::stat_of(file, what).st_mtime};
    if (origin.process.architecture.empty()) origin.process.architecture = oci::this_machine().architecture;
    // An image of Apptainer's says all of this already.
    bool has_its_own = has_file(read.tree, ".singularity.d");
    std::vector<squash::AddedFile> added;
    if (options.sif && !has_its_own) added = added_files(origin, options);
    write_image_file({read.tree, layers, read.layers}, origin, carried, std::move(added), options, to, what,
                     told(meter, what));
}

}  // namespace

std::string import_file(int file, const std::string& from, const std::string& path, const ImportOptions& options,
                        Meter& meter) {
    // Whoever imports a file wants to hear now that it is none of an image.
    squash::ImageTree read = tree_of_image_file(file, from);
    const squash::Extent& place = read.place;
    auto carried = place.size == 0 ? squash::read_config(file, from) : std::nullopt;
    OutputFile output(path);
    if (!options.force) output.refuse_existing();
    std::string what = cat("copying ", printable(from, 4096), " to ", printable(path, 4096));
    auto size = static_cast<uint64_t>(sys::stat_of(file, printable(from, 4096)).st_size);
    if (options.sif && !options.compression && squash::is_sif(file)) {
        copy(file, 0, size, output.fd(), what, meter);
    } else if (options.sif || options.compression || read.layers.size() > 1) {
        write_anew(read, file, from, carried, options, output.fd(), what, meter);
    } else {
        copy(file, place.offset, place.size == 0 ? size : place.offset + place.size, output.fd(), what, meter);
        squash::put_superblock_first(output.fd(), printable(path, 4096));
    }
    meter.begin(Phase::saving, cat("saving ", printable(path, 4096), " to disk"));
    output.publish(options.force);
    // Anybody may have written it.
    auto digest = carried ? Digest::parse(carried->digest) : std::nullopt;
    return digest ? digest->text() : "";
}

}  // namespace berth::pull
