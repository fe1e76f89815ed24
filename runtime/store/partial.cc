#include "runtime/store/partial.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/retired.hh"

namespace berth::store {

namespace {

constexpr const char* index_file = "index";
constexpr const char* chunks_file = "pieces";

std::string folder_of(const Digest& manifest) { return cat("partial/", manifest.hex()); }

std::string name_of(const Digest& manifest) { return cat("the index of image ", manifest); }

/// One that has still to come, or that is here already.
PartialLayer open_layer(const Store& store, const Digest& manifest, const Digest& diff_id, Access access) {
    int flags = (access == Access::write ? O_RDWR : O_RDONLY) | O_NOFOLLOW;
    PartialLayer out{diff_id, store.find(cat(folder_of(manifest), "/", diff_id.hex()), flags)};
    out.is_coming = static_cast<bool>(out.file);
    if (!out.file) out.file = store.open_layer(diff_id);
    if (out.file) out.size = static_cast<uint64_t>(sys::stat_of(out.file.get(), diff_id.text()).st_size);
    return out;
}

}  // namespace

uint64_t here_bytes(const PartialLayer& layer, const ChunkMap& map) {
    uint64_t out = 0;
    for (uint32_t chunk = 0; chunk < layer.chunks(); ++chunk)
        if (map.is_here(layer.first + chunk))
            out += std::min(ChunkMap::chunk_size, layer.size - chunk * ChunkMap::chunk_size);
    return out;
}

std::vector<Digest> layers_of(const squash::Index& index, const std::string& what) {
    std::vector<Digest> out;
    for (const squash::LayerInfo& layer : index.layers()) {
        auto diff_id = Digest::from_hex(layer.name.substr(0, layer.name.find('.')));
        if (!diff_id) throw Error(cat(what, ": \"", printable(layer.name), "\" is no name of a layer"));
        if (std::ranges::find(out, *diff_id) == out.end()) out.push_back(*diff_id);
    }
    return out;
}

std::optional<std::string> read_partial(const Store& store, const Digest& manifest, const std::string& file,
                                        size_t limit) {
    Fd found = store.find(cat(folder_of(manifest), "/", file), O_RDONLY | O_NOFOLLOW);
    if (!found) return std::nullopt;
    return sys::read_all(found.get(), limit, cat(file, " of the image ", manifest));
}

std::optional<Partial> find_partial(const Store& store, const Digest& manifest, Access access) {
    Fd index = store.find(cat(folder_of(manifest), "/", index_file), O_RDONLY | O_NOFOLLOW);
    Fd chunks = store.find(cat(folder_of(manifest), "/", chunks_file), O_RDWR | O_NOFOLLOW);
    if (!index || !chunks) return std::nullopt;
    Partial out{squash::Index::open(index.get(), name_of(manifest)), {}, {}};
    uint64_t count = 0;
    for (const Digest& diff_id : layers_of(out.index, name_of(manifest))) {
        PartialLayer layer = open_layer(store, manifest, diff_id, access);
        if (!layer.file) return std::nullopt;
        layer.first = static_cast<uint32_t>(count);
        count += ChunkMap::chunks_of(layer.size);
        out.layers.push_back(std::move(layer));
        if (count > ChunkMap::chunk_limit) return std::nullopt;
    }
    out.map = ChunkMap::open(chunks.get(), static_cast<uint32_t>(count), manifest);
    if (!out.map) return std::nullopt;
    return out;
}

std::optional<Store::OpenedFiles> open_partial(const Store& store, const Digest& manifest) {
    Lease lease = store.lease(manifest);
    std::optional<Partial> partial = find_partial(store, manifest, Access::read);
    if (!partial) return std::nullopt;
    Store::OpenedFiles out{std::move(partial->index), {}, std::move(lease), {partial->map, {}}};
    for (const squash::LayerInfo& info : out.index.layers()) {
        auto hex = info.name.substr(0, info.name.find('.'));
        auto layer = std::ranges::find_if(partial->layers, [&](const auto& one) { return one.diff_id.hex() == hex; });
        out.layers.emplace_back(::fcntl(layer->file.get(), F_DUPFD_CLOEXEC, 0));
        if (!out.layers.back()) throw SysError("opening a layer once more");
        out.coming.first.push_back(layer->first);
    }
    return out;
}

NewPartial::NewPartial(const Store& store, const Digest& manifest)
    : store_(store), manifest_(manifest), tmp_(store.directory("tmp")), scratch_(tmp_.get(), store.path() + "/tmp") {}

Fd NewPartial::add(const std::string& file) const {
    return sys::open_at(scratch_.fd(), file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

void NewPartial::add_layer(const Digest& diff_id, uint64_t size) const {
    Fd file = add(diff_id.hex());
    if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
        throw SysError(cat("making room for the layer ", diff_id, " in the store ", printable(store_.path(), 4096)));
}

void NewPartial::publish(uint32_t chunks, const std::vector<ChunkMap::Chunks>& here) {
    auto map = ChunkMap::create(add(chunks_file).get(), chunks, manifest_);
    for (const ChunkMap::Chunks& part : here)
        for (uint32_t chunk = part.first; chunk < part.first + part.count; ++chunk) map->set_here(chunk);
    remove_partial(store_, manifest_);
    Fd folder = store_.directory("partial");
    if (::renameat(tmp_.get(), scratch_.name().c_str(), folder.get(), manifest_.hex().c_str()) != 0)
        throw SysError(cat("publishing ", printable(store_.path(), 4096), "/", folder_of(manifest_)));
    scratch_.published();
}

bool publish_partial_layer(const Store& store, const Digest& manifest, const PartialLayer& layer) {
    Fd folder = sys::open_if_exists(store.directory("partial").get(), manifest.hex(), O_RDONLY | O_DIRECTORY);
    Fd file = folder ? sys::open_if_exists(folder.get(), layer.diff_id.hex(), O_RDWR | O_NOFOLLOW) : Fd();
    if (!file) return false;
    struct stat there = sys::stat_of(file.get(), layer.diff_id.text());
    struct stat come = sys::stat_of(layer.file.get(), layer.diff_id.text());
    if (there.st_ino != come.st_ino || there.st_dev != come.st_dev) return false;
    store.publish_layer(NewFile(std::move(folder), layer.diff_id.hex(), std::move(file)), layer.diff_id);
    return true;
}

void remove_partial(const Store& store, const Digest& manifest) {
    struct stat st {};
    if (::fstatat(store.directory("partial").get(), manifest.hex().c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0)
        remove_object(store, "partial", manifest.hex());
}

std::vector<Digest> partials(const Store& store) {
    std::vector<Digest> out;
    for (const std::string& name :
         sys::list_directory(store.directory("partial").get(), printable(store.path() + "/partial", 4096)))
        if (auto digest = Digest::from_hex(name)) out.push_back(*digest);
    return out;
}

}  // namespace berth::store
