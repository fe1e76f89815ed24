#include "runtime/images/file.hh"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/kept_index.hh"
#include "runtime/images/sif_environment.hh"
#include "runtime/images/spelling.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/data.hh"

namespace berth {

namespace {

constexpr size_t small_file_limit = 1 << 20;

/// Of a file that anybody may have made, in which a few kB can stand for any number of names: this much of metadata is
/// some five million honest names.
constexpr squash::TreeLimits foreign_limits{.inodes = 5'000'000, .depth = 1024, .metadata_bytes = 1ULL << 30};

constexpr size_t script_limit = 64;  // of /.singularity.d/env
constexpr const char* runscript = "/.singularity.d/runscript";

/// NAME in a directory of the image, or nothing when it is no regular file of a reasonable size.
std::string small_file(const squash::Index& index, squash::DataReader& reader, uint32_t directory,
                       std::string_view name) {
    auto file = index.file(directory == 0 ? 0 : index.lookup(directory, name));
    if (!file || file->size > small_file_limit) return {};
    std::string out(file->size, '\0');
    return reader.read(*file, 0, out) == static_cast<long>(out.size()) ? out : std::string();
}

/// What was read of one script after another of /.singularity.d/env.
plan::ImageConfig said_by(const SifEnvironment& read, bool has_runscript) {
    plan::ImageConfig out;
    out.env = read.env;
    if (has_runscript) out.entrypoint = {runscript};
    out.unread_lines = static_cast<uint32_t>(read.unread);
    return out;
}

/// What Apptainer or Singularity left in the image's files.
plan::ImageConfig said_to_apptainer(const squash::Index& index, squash::DataReader& reader) {
    uint32_t top = index.lookup(1, ".singularity.d"), scripts = top == 0 ? 0 : index.lookup(top, "env");
    SifEnvironment out;
    size_t bytes = 0, count = std::min<size_t>(scripts == 0 ? 0 : index.entry_count(scripts), script_limit);
    for (uint32_t i = 0; i < count && bytes <= small_file_limit; ++i) {
        auto entry = index.entry(scripts, i);
        if (!entry || !entry->name.ends_with(".sh") || is_script_of_apptainer(entry->name)) continue;
        std::string text = small_file(index, reader, scripts, entry->name);
        if ((bytes += text.size()) <= small_file_limit) out.read(text);
    }
    auto script = index.inode(top == 0 ? 0 : index.lookup(top, "runscript"));
    return said_by(out, script && S_ISREG(script->mode) && (script->mode & 0111) != 0);
}

bool says_something(const plan::ImageConfig& config) {
    return !config.env.empty() || !config.working_dir.empty() || !config.entrypoint.empty() || config.unread_lines > 0;
}

/// What Enroot left in the image's files, or Apptainer, which goes before in a file of its own form.
plan::ImageConfig said_in(const squash::Index& index, int fd, bool is_of_apptainer, const FileSums& sums) {
    Fd file(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!file) throw SysError("opening the image once more");
    squash::DataReader reader(squash::for_each_layer(std::move(file), index.layers().size()), index.layers(), 1 << 20,
                              {}, {.sums = sums});
    uint32_t etc = index.lookup(1, "etc");
    plan::ImageConfig to_enroot =
        config_of_enroot(small_file(index, reader, etc, "environment"), small_file(index, reader, etc, "rc"));
    if (!is_of_apptainer && to_enroot.of_enroot) return to_enroot;
    plan::ImageConfig to_apptainer = said_to_apptainer(index, reader);
    return says_something(to_apptainer) ? to_apptainer : to_enroot;
}

/// The bytes of the index of a squashfs or SIF file.
std::string build_index_of(int file, const std::string& path, const FileSums& sums) {
    squash::ImageTree read = tree_of_image_file(file, path, sums.get());
    auto index_with = [&](const plan::ImageConfig& config) {
        return squash::build_index(read.tree, read.layers, config);
    };
    // What `berth import` wrote stands behind the squashfs.
    auto carried = read.place.size == 0 ? squash::read_config(file, path) : std::nullopt;
    if (carried) return index_with(carried->process);
    std::string out = index_with({});
    plan::ImageConfig said = said_in(squash::Index::from_bytes(out), file, read.place.size > 0, sums);
    return says_something(said) ? index_with(said) : out;
}

ContainerImage open_squashfs(Fd file, const std::string& path, FileSums sums, const store::Store* store) {
    auto build = [&] { return build_index_of(file.get(), path, sums); };
    squash::Index index = kept_index(file.get(), IndexOf::image, store, build);
    size_t count = index.layers().size();
    ContainerImage out{std::move(index), squash::for_each_layer(std::move(file), count)};
    out.sums = std::move(sums);
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

/// Names in a directory of the image, sorted as a shell expands them in the C locale.
std::vector<std::string> names_in(int root, const std::string& path) {
    std::vector<std::string> out;
    try {
        Fd directory = sys::open_in_root(root, path, O_RDONLY | O_DIRECTORY);
        std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(directory.get()), ::closedir);
        if (!list) return {};
        (void)directory.release();
        while (const dirent* entry = ::readdir(list.get())) out.emplace_back(entry->d_name);
    } catch (const Error&) {
        return {};
    }
    std::ranges::sort(out);
    return out;
}

plan::ImageConfig said_to_apptainer(int root) {
    SifEnvironment out;
    size_t bytes = 0, count = 0;
    for (const std::string& name : names_in(root, "/.singularity.d/env")) {
        if (!name.ends_with(".sh") || is_script_of_apptainer(name) || ++count > script_limit) continue;
        std::string text = small_file(root, cat("/.singularity.d/env/", name));
        if ((bytes += text.size()) <= small_file_limit) out.read(text);
    }
    bool has_runscript = false;
    try {
        struct stat st = sys::stat_of(sys::open_in_root(root, runscript, O_PATH).get(), runscript);
        has_runscript = S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
    } catch (const Error&) {
    }
    return said_by(out, has_runscript);
}

ContainerImage open_directory(const Fd& directory, const std::string& path) {
    struct stat here = sys::stat_of(directory.get(), path), root = sys::stat_of(sys::open_file("/", O_PATH).get(), "/");
    if (here.st_dev == root.st_dev && here.st_ino == root.st_ino)
        throw Error(cat("opening the image ", printable(path, 4096),
                        ": it is the root of this node; name a directory with a root file system of its own"));
    if (::faccessat(directory.get(), "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        throw Error(cat("opening the image ", printable(path, 4096),
                        ": it is an OCI image layout; write oci:", printable(path, 4096)));
    if (small_file(directory.get(), "/version").starts_with("Directory Transport Version:"))
        throw Error(cat("opening the image ", printable(path, 4096), ": it is a folder of skopeo's dir: form; make a "
                        "layout of it with skopeo copy dir:FOLDER oci:OTHER, and write oci:OTHER"));
    plan::ImageConfig said =
        config_of_enroot(small_file(directory.get(), "/etc/environment"), small_file(directory.get(), "/etc/rc"));
    if (!said.of_enroot)
        if (plan::ImageConfig other = said_to_apptainer(directory.get()); says_something(other))
            said = std::move(other);
    auto empty = std::make_unique<squash::TreeData>();
    empty->nodes.push_back({.mode = S_IFDIR | 0755});
    ContainerImage out{squash::Index::from_bytes(squash::build_index(squash::Tree(std::move(empty)), {}, said)),
                       {}, {}, path};
    out.directory_identity = {here.st_dev, here.st_ino};
    return out;
}

/// The text of a shell word in single quotes, as Berth writes it; empty when there is more to it.
std::string single_unquoted(std::string_view text) {
    constexpr std::string_view quote = "'\\''";
    std::string out;
    for (text = text.substr(1, text.size() - 2); !text.empty();) {
        if (text.front() != '\'') {
            out += text.front();
            text.remove_prefix(1);
        } else if (text.starts_with(quote)) {
            out += '\'';
            text.remove_prefix(quote.size());
        } else {
            return {};
        }
    }
    return out;
}

/// The text between the quotes of a shell word as Enroot and Berth write it; empty when there is more to it.
std::string unquoted(std::string_view text) {
    if (text.size() > 2 && text.front() == '\'' && text.back() == '\'') return single_unquoted(text);
    if (text.size() < 2 || text.front() != '"' || text.back() != '"') return {};
    text = text.substr(1, text.size() - 2);
    return text.find_first_of("\"$`\\") == text.npos ? std::string(text) : std::string();
}

/// What a line of /etc/rc enters, as releases of Enroot write it, the first ones without OLDPWD; empty for other lines.
std::string entered_directory(std::string_view line) {
    constexpr std::string_view start = "cd ";
    for (std::string_view end : {" && unset OLDPWD || exit 1", " || exit 1"})
        if (line.starts_with(start) && line.ends_with(end) && line.size() > start.size() + end.size())
            return unquoted(line.substr(start.size(), line.size() - start.size() - end.size()));
    return {};
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
    for (const std::string& line : split(rc, '\n'))
        if (std::string path = entered_directory(line); path.starts_with("/") && path.find('\0') == path.npos)
            out.working_dir = path;
    // Distributions of old have a script of that name for the start of a machine.
    out.of_enroot = rc.find("\"$@\"") != rc.npos;
    if (out.of_enroot) out.entrypoint = enroot_script;
    return out;
}

squash::ImageTree tree_of_image_file(int fd, const std::string& path, const squash::PartSums* sums) {
    return squash::read_image_file(fd, path, foreign_limits, sums);
}

ContainerImage open_image_file(const std::string& path, const std::function<FileSums(int)>& judge,
                               const store::Store* store) {
    std::string shown = printable(path, 4096);
    Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    FileSums sums = judge ? judge(file.get()) : nullptr;
    if (sums) return open_squashfs(std::move(file), path, std::move(sums), nullptr);
    struct stat st = sys::stat_of(file.get(), shown);
    if (S_ISDIR(st.st_mode)) return open_directory(file, path);
    if (!S_ISREG(st.st_mode)) throw Error(cat("opening the image ", shown, ": it is no regular file"));
    squash::Extent place = squash::find_squashfs(file.get(), path);
    if (std::string kind = place.size > 0 ? "" : archive_kind(file.get()); !kind.empty())
        throw Error(cat("opening the image ", shown, ": it is an archive; write ", archive_spelling(kind, path)));
    return open_squashfs(std::move(file), path, nullptr, store);
}

}  // namespace berth
