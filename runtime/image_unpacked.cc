#include "runtime/image_unpacked.hh"

#include <fcntl.h>
#include <poll.h>

#include <chrono>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/unpack_tree.hh"
#include "runtime/store/unpacked.hh"

namespace berth {

namespace {

constexpr size_t cache_bytes = 16 << 20;
constexpr unsigned thread_limit = 8;

/// Says every second how far it is, and looks after the watch's descriptor.
class Teller {
  public:
    Teller(const std::string& what, const PullWatch& watch) : what_(what), watch_(watch) {}
    void operator()(uint64_t done, uint64_t total) {
        pollfd waiting{watch_.descriptor, POLLIN, 0};
        if (watch_.descriptor >= 0 && ::poll(&waiting, 1, 0) > 0) watch_.ready();
        auto now = std::chrono::steady_clock::now();
        if (!watch_.progress || now - last_ < std::chrono::seconds(1)) return;
        last_ = now;
        watch_.progress(cat("unpacking ", what_, ": ", done >> 20, " of ", total >> 20, " MB"));
    }

  private:
    const std::string& what_;
    const PullWatch& watch_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void unpack(ContainerImage& image, int directory, const std::string& what, const PullWatch& watch) {
    std::vector<Fd> files;
    for (const Fd& layer : image.layers) {
        files.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!files.back()) throw SysError("opening a layer once more");
    }
    squash::DataReader reader(std::move(files), image.index.layers(), cache_bytes);
    Teller teller(what, watch);
    squash::unpack_tree(image.index, reader, directory, std::min(usable_cpus(), thread_limit), what, std::ref(teller));
}

/// Waits for whoever unpacks the same, in steps, so that the user can end it.
Fd wait_for_turn(const store::Store& store, const std::string& key, const std::string& what, const PullWatch& watch) {
    for (bool told = false;; told = true) {
        if (Fd turn = store.try_lock(key)) return turn;
        if (!told && watch.progress) watch.progress(cat("waiting for ", store.lock_owner(key), ", which is unpacking ", what));
        pollfd waiting{watch.descriptor, POLLIN, 0};
        if (::poll(&waiting, 1, 50) > 0) watch.ready();
    }
}

}  // namespace

void use_unpacked(ContainerImage& image, const std::string& digest, const store::Store& store, const std::string& what, const PullWatch& watch) {
    std::string key = digest.empty() ? store::file_key(image.layers.at(0).get()) : store.image_of(digest).value_or(digest);
    // Of a stored image there is one already; this one says that the directory was used as well.
    if (!image.lease) image.lease = store.lease(key);
    image.directory = store::unpacked_path(store, key);
    if (!image.directory.empty()) return;
    Fd turn = wait_for_turn(store, key, what, watch);
    image.directory = store::unpacked_path(store, key);
    if (image.directory.empty()) image.directory = store::add_unpacked(store, key, [&](int directory) { unpack(image, directory, what, watch); });
}

}  // namespace berth
