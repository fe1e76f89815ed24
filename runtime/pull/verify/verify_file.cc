#include "runtime/pull/verify/verify_file.hh"

#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/images/compare.hh"
#include "runtime/images/file.hh"
#include "runtime/pull/export/import.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/squash/format/file_config.hh"

namespace berth::pull {

namespace {

constexpr size_t cache_bytes = 8 << 20;

/// A file as it lies there, and what stands behind its squashfs.
struct OpenedFile {
    ContainerImage image;
    squash::FileConfig config;
};

OpenedFile open_file(const std::string& path) {
    std::optional<squash::FileConfig> config;
    ContainerImage image = open_image_file(std::filesystem::absolute(path).string(),
                                           [&](int file) {
                                               config = squash::read_config(file, path);
                                               return nullptr;
                                           });
    if (!config)
        throw Error(cat("verifying ", printable(path, 4096),
                        ": it does not say which image it is of, as files of berth import do"));
    return {std::move(image), std::move(*config)};
}

plan::Reference reference_in(const squash::FileConfig& config, const std::string& path) {
    plan::Reference out;
    auto digest = Digest::parse(config.digest);
    if (!digest) throw Error(cat("verifying ", printable(path, 4096), ": it names no image; name it behind the file"));
    if (!config.reference.empty()) out = plan::parse_reference(config.reference);
    out.tag.clear();
    out.digest = digest;
    return out;
}

/// The manifest of the image, which is in the store then.
Digest bring(const store::Store& store, const plan::Reference& reference, const OptionsFor& options,
             const std::string& path, Meter& meter) {
    auto known = store.digest_of(reference);
    if (!known || !is_complete(store, *known)) {
        if (reference.kind == plan::Reference::Kind::registry && reference.name.empty())
            throw Error(cat("verifying ", printable(path, 4096), ": its image ", text_of(reference.digest),
                            " is not in the store, and nothing says where it comes from; name it behind the file"));
        known = pull(store, reference, options(reference), meter);
    }
    if (auto manifest = store.image_of(*known)) return *manifest;
    throw Error(cat("image ", *known, ": has gone from the store ", printable(store.path(), 4096)));
}

bool have_same_settings(const plan::ImageConfig& is, const plan::ImageConfig& wanted) {
    return is.env == wanted.env && is.entrypoint == wanted.entrypoint && is.cmd == wanted.cmd &&
           is.working_dir == wanted.working_dir && is.user == wanted.user && is.volumes == wanted.volumes;
}

/// Files that have several names count once.
uint64_t bytes_of(const squash::Index& index) {
    uint64_t out = 0;
    for (uint32_t number = 1; number <= index.inode_count(); ++number)
        if (auto inode = index.inode(number); inode && (inode->mode & S_IFMT) == S_IFREG) out += inode->size;
    return out;
}

}  // namespace

VerifiedFile verify_file(const store::Store& store, const std::string& path,
                         const std::optional<plan::Reference>& image, const OptionsFor& options, Meter& meter) {
    std::string what = printable(path, 4096);
    OpenedFile file = open_file(path);
    plan::Reference reference = image ? *image : reference_in(file.config, path);
    Digest manifest = bring(store, reference, options, path, meter);
    store::Store::OpenedFiles wanted = store.open_image(manifest);
    plan::ImageConfig settings = wanted.index.config();
    VerifiedFile out{"", cat("image ", reference.name.empty() ? manifest.text() : printable(reference.text(), 1024)),
                     file.image.index.inode_count(), bytes_of(file.image.index)};
    meter.begin(Phase::verifying, cat("comparing ", what, " with ", out.image), out.bytes);
    auto differs = [&](const std::string& how) { return cat(what, ": is not ", out.image, ": ", how); };
    if (!have_same_settings(file.config.process, settings)) {
        out.problem = differs("its settings of the process are others");
        return out;
    }
    squash::DataReader is_bytes(std::move(file.image.layers), file.image.index.layers(), cache_bytes);
    squash::DataReader wanted_bytes(std::move(wanted.layers), wanted.index.layers(), cache_bytes);
    auto read = [&](uint64_t bytes) { meter.advance(bytes); };
    std::string how =
        first_difference({file.image.index, is_bytes}, {wanted.index, wanted_bytes}, enroot_files(settings), read);
    if (!how.empty()) out.problem = differs(how);
    return out;
}

}  // namespace berth::pull
