#include "runtime/images/file.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/spelling.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_tree.hh"

namespace berth {

namespace {

constexpr size_t small_file_limit = 1 << 20;

/// Of a file that anybody may have made, in which a few kB can stand for any number of names: this much of metadata is
/// some five million honest names.
constexpr squash::TreeLimits foreign_limits{.inodes = 5'000'000, .depth = 1024, .metadata_bytes = 1ULL << 30};

/// /etc/NAME of the image, or nothing when it is no regular file of a reasonable size.
std::string small_file(const squash::Index& index, squash::DataReader& reader, const std::string& name) {
    uint32_t etc = index.lookup(1, "etc");
    auto file = index.file(etc == 0 ? 0 : index.lookup(etc, name));
    if (!file || file->size > small_file_limit) return {};
    std::string out(file->size, '\0');
    return reader.read(*file, 0, out) == static_cast<long>(out.size()) ? out : std::string();
}

/// What Enroot left in the image's files.
plan::ImageConfig config_in(const squash::Index& index, int fd) {
    std::vector<Fd> files;
    files.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!files.back()) throw SysError("opening the image once more");
    squash::DataReader reader(std::move(files), index.layers(), 1 << 20);
    return config_of_enroot(small_file(index, reader, "environment"), small_file(index, reader, "rc"));
}

ContainerImage open_squashfs(Fd file, const std::string& path, const squash::Extent& place) {
    std::vector<squash::LayerInfo> layers(1);
    squash::Tree tree = squash::read_tree(file.get(), path, 0, layers[0], foreign_limits, place);
    auto index_with = [&](const plan::ImageConfig& config) {
        return squash::Index::from_bytes(squash::build_index(tree, layers, config));
    };
    // What `berth import` wrote stands behind the squashfs.
    auto carried = place.size == 0 ? squash::read_config(file.get(), path) : std::nullopt;
    ContainerImage out{index_with(carried ? carried->process : plan::ImageConfig()), {}, {}, {}};
    if (!carried) {
        plan::ImageConfig config = config_in(out.index, file.get());
        if (!config.env.empty() || !config.working_dir.empty() || !config.entrypoint.empty())
            out.index = index_with(config);
        out.of_enroot = config.entrypoint == enroot_script;
    }
    out.layers.push_back(std::move(file));
    return out;
}

/// Read in a directory, following links as a process with that root would.
std::string small_file(int root, const std::string& path) {
    try {
        Fd file = sys::open_in_root(root, path, O_RDONLY | O_NONBLOCK);
        if (!S_ISREG(sys::stat_of(file.get(), path).st_mode)) return {};
        return sys::read_all(file.get(), small_file_limit, path);
    } catch (const Error&) {
        return {};
    }
}

ContainerImage open_directory(const Fd& directory, const std::string& path) {
    struct stat here = sys::stat_of(directory.get(), path), root = sys::stat_of(sys::open_file("/", O_PATH).get(), "/");
    if (here.st_dev == root.st_dev && here.st_ino == root.st_ino)
        throw Error(cat("opening the image ", printable(path, 4096),
                        ": it is the root of this node; name a directory with a root file system of its own"));
    if (::faccessat(directory.get(), "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        throw Error(cat("opening the image ", printable(path, 4096),
                        ": it is an OCI image layout; write oci:", printable(path, 4096)));
    plan::ImageConfig config =
        config_of_enroot(small_file(directory.get(), "/etc/environment"), small_file(directory.get(), "/etc/rc"));
    auto empty = std::make_unique<squash::TreeData>();
    empty->nodes.push_back({.mode = S_IFDIR | 0755});
    ContainerImage out{squash::Index::from_bytes(squash::build_index(squash::Tree(std::move(empty)), {}, config)),
                       {}, {}, path};
    out.directory_identity = {here.st_dev, here.st_ino};
    out.of_enroot = config.entrypoint == enroot_script;
    return out;
}

/// The text between the quotes of a shell word as Enroot writes it; empty when there is more to it.
std::string unquoted(std::string_view text) {
    if (text.size() < 2 || text.front() != '"' || text.back() != '"') return {};
    text = text.substr(1, text.size() - 2);
    return text.find_first_of("\"$`\\") == text.npos ? std::string(text) : std::string();
}

bool is_name(std::string_view name) {
    auto fits = [](char c) {
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

const std::vector<std::string> enroot_script = {"/bin/sh", "/etc/rc"};

plan::ImageConfig config_of_enroot(const std::string& environment, const std::string& rc) {
    plan::ImageConfig out;
    for (const std::string& line : split(environment, '\n')) {
        size_t equals = line.find('=');
        if (equals == line.npos || !is_name(std::string_view(line).substr(0, equals)) || line.find('\0') != line.npos)
            continue;
        std::string value = line.substr(equals + 1);
        // Distributions quote in this file.
        if (value.size() >= 2 && value.front() == value.back() && (value[0] == '"' || value[0] == '\''))
            value = value.substr(1, value.size() - 2);
        out.env.push_back(cat(line.substr(0, equals), "=", value));
    }
    constexpr std::string_view start = "cd ", end = " && unset OLDPWD || exit 1";
    for (const std::string& line : split(rc, '\n'))
        if (line.starts_with(start) && line.ends_with(end) && line.size() > start.size() + end.size())
            if (std::string path = unquoted(line.substr(start.size(), line.size() - start.size() - end.size()));
                path.starts_with("/") && path.find('\0') == path.npos)
                out.working_dir = path;
    // Distributions of old have a script of that name for the start of a machine.
    if (rc.find("\"$@\"") != rc.npos) out.entrypoint = enroot_script;
    return out;
}

squash::Tree tree_of_image_file(int fd, const std::string& path, squash::LayerInfo& info, squash::Extent& place) {
    place = squash::is_sif(fd) ? squash::find_sif_partition(fd, path) : squash::Extent();
    return squash::read_tree(fd, path, 0, info, foreign_limits, place);
}

ContainerImage open_image_file(const std::string& path, const std::function<void(int)>& judge) {
    std::string shown = printable(path, 4096);
    Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    if (judge) judge(file.get());
    struct stat st = sys::stat_of(file.get(), shown);
    if (S_ISDIR(st.st_mode)) return open_directory(file, path);
    if (!S_ISREG(st.st_mode)) throw Error(cat("opening the image ", shown, ": it is no regular file"));
    squash::Extent place;
    if (squash::is_sif(file.get()))
        place = squash::find_sif_partition(file.get(), path);
    else if (std::string kind = archive_kind(file.get()); !kind.empty())
        throw Error(cat("opening the image ", shown, ": it is an archive; write ", archive_spelling(kind, path)));
    return open_squashfs(std::move(file), path, place);
}

}  // namespace berth
