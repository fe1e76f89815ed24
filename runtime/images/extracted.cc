#include "runtime/images/extracted.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/once.hh"
#include "runtime/squash/read/extract_tree.hh"
#include "runtime/store/extracted.hh"

namespace berth {

namespace {

constexpr size_t cache_bytes = 16 << 20;
constexpr unsigned thread_limit = 8;
constexpr size_t unpacked_size = std::string_view("/unpacked/").size();

/// Which directory of the store this is. The start mounts it by its path, and a link put there since would lead it
/// elsewhere, past what the site allows.
std::pair<uint64_t, uint64_t> identity_in(const store::Store& store, const std::string& path) {
    Fd directory = sys::open_beneath(store.directory("unpacked").get(),
                                     path.substr(store.path().size() + unpacked_size), O_PATH | O_DIRECTORY);
    struct stat st = sys::stat_of(directory.get(), printable(path, 4096));
    return {st.st_dev, st.st_ino};
}

void extract(ContainerImage& image, int directory, plan::ImageModes modes, const std::string& what,
             const PullWatch& watch) {
    std::vector<Fd> files;
    for (const Fd& layer : image.layers) {
        files.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!files.back()) throw SysError("opening a layer once more");
    }
    squash::DataReader reader(std::move(files), image.index.layers(), cache_bytes, {}, {.sums = image.sums});
    std::string work = cat("extracting ", what);
    Reporter reporter(work, watch);
    squash::extract_tree(image.index, reader, directory, std::min(usable_cpus(), thread_limit), what,
                         std::ref(reporter), modes);
}

}  // namespace

void use_extracted(OpenedImage& opened, const store::Store& store, plan::ImageModes modes, const std::string& what,
                   const PullWatch& watch) {
    ContainerImage& image = opened.image;
    Digest key = key_in_store(opened, store);
    // Of a stored image there is one already; this one says that the directory was used as well.
    if (!image.lease) image.lease = store.lease(key);
    make_once(
        store, key, cat("extracting ", what), watch,
        [&] { return !(image.directory = store::extracted_path(store, key, modes)).empty(); },
        [&] {
            image.directory = store::add_extracted(
                store, key, modes, [&](int directory) { extract(image, directory, modes, what, watch); });
        });
    image.directory_identity = identity_in(store, image.directory);
}

}  // namespace berth
