#include "hooks/rootfs.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/squash/index/find.hh"
#include "runtime/squash/read/data.hh"

namespace berth::hooks {

namespace {

Fd open_inside(int root, const std::string& path, int flags) {
    try {
        return sys::open_in_root(root, path, flags & O_PATH ? flags : flags | O_NONBLOCK);
    } catch (const SysError&) {
        return {};
    }
}

}  // namespace

Rootfs::~Rootfs() = default;

std::optional<std::string> ServedRootfs::resolved(const std::string& path) const {
    std::string out;
    return squash::find_path(index_, path, &out) != 0 ? std::optional(out) : std::nullopt;
}

std::vector<std::string> ServedRootfs::list(const std::string& path) const {
    std::vector<std::string> out;
    uint32_t directory = squash::find_path(index_, path);
    if (directory == 0) return out;
    for (uint32_t i = 0; i < index_.entry_count(directory); ++i)
        if (auto entry = index_.entry(directory, i)) out.emplace_back(entry->name);
    return out;
}

std::string ServedRootfs::read(const std::string& path, uint64_t offset, size_t size) const {
    auto file = index_.file(squash::find_path(index_, path));
    if (!file || offset >= file->size) return {};
    std::vector<Fd> layers;
    for (const Fd& layer : layers_) layers.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
    squash::DataReader reader(std::move(layers), index_.layers(), 4 << 20);
    std::string out(std::min<uint64_t>(size, file->size - offset), '\0');
    long got = reader.read(*file, offset, out);
    out.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return out;
}

DirectoryRootfs::DirectoryRootfs(const std::string& path) : directory_(sys::open_file(path, O_PATH | O_DIRECTORY)) {}

bool DirectoryRootfs::exists(const std::string& path) const {
    return bool(open_inside(directory_.get(), path, O_PATH));
}

std::optional<std::string> DirectoryRootfs::resolved(const std::string& path) const {
    Fd object = open_inside(directory_.get(), path, O_PATH);
    if (!object) return std::nullopt;
    std::string root = sys::opened_path(directory_.get()), found = sys::opened_path(object.get());
    return found == root ? "/" : found.substr(root == "/" ? 0 : root.size());
}

std::vector<std::string> DirectoryRootfs::list(const std::string& path) const {
    Fd directory = open_inside(directory_.get(), path, O_RDONLY | O_DIRECTORY);
    return directory ? sys::list_directory(directory.get(), printable(path, 4096)) : std::vector<std::string>();
}

std::string DirectoryRootfs::read(const std::string& path, uint64_t offset, size_t size) const {
    Fd file = open_inside(directory_.get(), path, O_RDONLY);
    if (!file) return {};
    std::string out(size, '\0');
    ssize_t got = ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(offset));
    out.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return out;
}

std::unique_ptr<Rootfs> rootfs_of(const ContainerImage& image) {
    if (!image.directory.empty()) return std::make_unique<DirectoryRootfs>(image.directory);
    return std::make_unique<ServedRootfs>(image.index, image.layers);
}

}  // namespace berth::hooks
