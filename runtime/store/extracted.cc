#include "runtime/store/extracted.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"

namespace berth::store {

namespace {

// The published directory is one above: to give a directory another parent takes the right to write to it, which an
// image's root need not grant.
constexpr const char* rootfs = "rootfs";

std::string folder_of(const Digest& digest, plan::ImageModes modes) {
    return cat(digest.hex(), modes == plan::ImageModes::enroot ? ".enroot" : "");
}

std::string shown_folder(const Store& store) { return printable(store.path() + "/unpacked", 4096); }

/// Moves an object of the folder unpacked/ away and removes it there: it is gone at once, or not at all.
void remove_object(const Store& store, int unpacked, const std::string& name) {
    Fd tmp = store.directory("tmp");
    std::string scratch = scratch_name();
    if (::renameat(unpacked, name.c_str(), tmp.get(), scratch.c_str()) == 0)
        remove_scratch(tmp.get(), scratch);
    else if (errno != ENOENT)
        throw SysError(cat("removing ", printable(store.path(), 4096), "/unpacked/", printable(name)));
}

}  // namespace

std::string extracted_path(const Store& store, const Digest& digest, plan::ImageModes modes) {
    std::string path = cat(folder_of(digest, modes), "/", rootfs);
    return sys::find_beneath(store.directory("unpacked").get(), path, O_PATH | O_DIRECTORY)
               ? cat(store.path(), "/unpacked/", path)
               : std::string();
}

std::string add_extracted(const Store& store, const Digest& digest, plan::ImageModes modes,
                          const std::function<void(int directory)>& fill) {
    std::string name = folder_of(digest, modes), path = cat(store.path(), "/unpacked/", name, "/", rootfs);
    Fd tmp = store.directory("tmp"), unpacked = store.directory("unpacked");
    Scratch scratch(tmp.get(), cat(store.path(), "/tmp"));
    if (::mkdirat(scratch.fd(), rootfs, 0700) != 0)
        throw SysError(cat("creating a directory in ", printable(store.path(), 4096), "/tmp"));
    Fd directory = sys::open_beneath(scratch.fd(), rootfs, O_RDONLY | O_DIRECTORY);
    fill(directory.get());
    // A name that is there after a crash of the node must be of a whole tree.
    if (sys::uninterrupted([&] { return ::syncfs(directory.get()); }) != 0)
        throw SysError(cat("writing to the store ", printable(store.path(), 4096)));
    if (::renameat(tmp.get(), scratch.name().c_str(), unpacked.get(), name.c_str()) == 0)
        scratch.published();
    else if (errno != EEXIST && errno != ENOTEMPTY)
        throw SysError(cat("publishing ", printable(path, 4096)));
    return path;
}

namespace {

std::string sif_name(const Digest& manifest) { return manifest.hex() + ".sif"; }
std::string verified_name(const Digest& key) { return key.hex() + ".verified"; }
constexpr size_t verified_limit = 1 << 30;

/// Has `write` fill an empty file, and publishes it whole, by a rename: `durable`, also after a crash of the node.
void add_file(const Store& store, const std::string& name, bool durable, const std::function<void(int file)>& write) {
    Fd tmp = store.directory("tmp"), unpacked = store.directory("unpacked");
    Scratch scratch(tmp.get(), cat(store.path(), "/tmp"));
    Fd file = sys::open_at(scratch.fd(), name, O_RDWR | O_CREAT | O_EXCL, 0600);
    write(file.get());
    if ((durable && !sys::synced(file.get())) ||
        ::renameat(scratch.fd(), name.c_str(), unpacked.get(), name.c_str()) != 0 ||
        (durable && !sys::synced(unpacked.get())))
        throw SysError(cat("publishing ", printable(cat(store.path(), "/unpacked/", name), 4096)));
}

}  // namespace

std::string sif_path(const Store& store, const Digest& manifest) {
    std::string name = sif_name(manifest);
    return sys::find_beneath(store.directory("unpacked").get(), name, O_PATH | O_NOFOLLOW)
               ? cat(store.path(), "/unpacked/", name)
               : std::string();
}

void add_sif(const Store& store, const Digest& manifest, const std::function<void(int file)>& write) {
    add_file(store, sif_name(manifest), true, write);
}

std::optional<std::string> verified_text(const Store& store, const Digest& key) {
    std::string name = verified_name(key);
    Fd file = sys::open_if_exists(store.directory("unpacked").get(), name, O_RDONLY | O_NOFOLLOW);
    return file ? std::optional(sys::read_all(file.get(), verified_limit, name)) : std::nullopt;
}

void remember_verified(const Store& store, const Digest& key, const std::string& text) {
    std::string name = verified_name(key);
    add_file(store, name, true, [&](int file) { sys::write_all(file, text, name); });
}

namespace {

std::string index_name(const Digest& key, const std::string& form) { return cat(key.hex(), ".", form); }

}  // namespace

Fd open_file_index(const Store& store, const Digest& key, const std::string& form) {
    return sys::open_if_exists(store.directory("unpacked").get(), index_name(key, form), O_RDONLY | O_NOFOLLOW);
}

void add_file_index(const Store& store, const Digest& key, const std::string& form, std::string_view bytes) {
    std::string name = index_name(key, form);
    add_file(store, name, false, [&](int file) { sys::write_all(file, bytes, name); });
}

void remove_extracted(const Store& store, const Digest& digest) {
    Fd unpacked = store.directory("unpacked");
    std::string hex = digest.hex();
    for (const std::string& name : sys::list_directory(unpacked.get(), shown_folder(store)))
        if (name == hex || name.starts_with(hex + ".")) remove_object(store, unpacked.get(), name);
}

std::vector<Digest> extracted_digests(const Store& store) {
    std::vector<Digest> out;
    for (const std::string& name : sys::list_directory(store.directory("unpacked").get(), shown_folder(store)))
        if (auto digest = Digest::from_hex(name.substr(0, name.find('.')))) out.push_back(*digest);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

Digest file_key(int fd) {
    struct stat st = sys::stat_of(fd, "an image file");
    uint64_t facts[] = {0,
                        st.st_dev,
                        st.st_ino,
                        static_cast<uint64_t>(st.st_size),
                        static_cast<uint64_t>(st.st_mtim.tv_sec),
                        static_cast<uint64_t>(st.st_mtim.tv_nsec),
                        static_cast<uint64_t>(st.st_ctim.tv_sec),
                        static_cast<uint64_t>(st.st_ctim.tv_nsec)};
    std::string key = "sha256:";
    for (uint64_t& round = facts[0]; round < 4; ++round) {
        char part[17];
        std::snprintf(part, sizeof part, "%016llx",
                      static_cast<unsigned long long>(
                          squash::format::hash({reinterpret_cast<const char*>(facts), sizeof facts})));
        key += part;
    }
    return Digest(key);
}

}  // namespace berth::store
