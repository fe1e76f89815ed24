#include "runtime/cli/migrate_files.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/doctor/plugstack.hh"
#include "runtime/migrate/lines.hh"

namespace berth::cli {

namespace {

constexpr size_t file_limit = 1 << 20;

/// Follows symlinks: Enroot's own hooks are often links.
bool is_file(const std::string& path, bool executable = false) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (!executable || (info.st_mode & 0111) != 0);
}

/// None for a folder that is not there.
std::vector<std::string> names_in(const std::string& folder) {
    Fd opened = sys::open_if_exists(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    return opened ? sys::list_directory(opened.get(), folder) : std::vector<std::string>();
}

/// The files of `folder` whose names end in `ending`; the names of others are added to `passed_over`.
std::vector<migrate::File> files_in(const std::string& folder, std::string_view ending,
                                    std::vector<std::string>& passed_over) {
    std::vector<migrate::File> out;
    for (const std::string& name : names_in(folder)) {
        std::string path = cat(folder, "/", name);
        if (name.ends_with(ending) && !name.starts_with('.') && is_file(path))
            out.push_back({path, sys::read_file(path, file_limit)});
        else
            passed_over.push_back(path);
    }
    return out;
}

/// Nothing for a file that is not there.
void add_file(std::vector<migrate::File>& files, const std::string& path) {
    if (Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY))
        files.push_back({path, sys::read_all(file.get(), file_limit, path)});
}

std::string text_of_hook(const std::string& path) {
    Fd file = sys::open_file(path, O_RDONLY);
    bool large = sys::stat_of(file.get(), path).st_size > static_cast<off_t>(file_limit);
    return large ? std::string() : sys::read_all(file.get(), file_limit, path);
}

migrate::Folders folders_in(const std::string& folder) {
    migrate::Folders out;
    out.environ = files_in(folder + "/environ.d", ".env", out.passed_over);
    out.mounts = files_in(folder + "/mounts.d", ".fstab", out.passed_over);
    for (const std::string& name : names_in(folder + "/hooks.d")) {
        std::string path = cat(folder, "/hooks.d/", name);
        bool executable = is_file(path, true);
        out.hooks.push_back({path, executable, executable ? text_of_hook(path) : ""});
    }
    return out;
}

/// A folder that was named has to be there.
void check_folder(const std::string& folder, const char* option) {
    if (!sys::open_if_exists(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY))
        throw SysError(cat("looking for the settings of Enroot in ", printable(folder, 4096), " (", option,
                           " names another folder)"),
                       ENOENT);
}

/// `file` and those that it includes; `depth` ends circles of includes.
void add_plugstack(std::vector<migrate::File>& files, const std::string& file, unsigned depth) {
    files.push_back({file, sys::read_file(file, file_limit)});
    if (depth == 0) return;
    for (const std::string& include : migrate::parse_plugstack(std::string(files.back().text)).includes) {
        std::string pattern = include.starts_with('/') ? include : cat(file.substr(0, file.rfind('/') + 1), include);
        for (const std::string& included : files_matching(pattern)) add_plugstack(files, included, depth - 1);
    }
}

/// certs.d: a folder for each registry, with certificates and, of containerd, hosts.toml.
void add_certs(migrate::Configuration& out, const std::string& folder) {
    for (const std::string& host : names_in(folder)) {
        std::string own = cat(folder, "/", host);
        if (!sys::open_if_exists(AT_FDCWD, own, O_PATH | O_DIRECTORY)) continue;
        for (const std::string& name : names_in(own)) {
            std::string path = cat(own, "/", name);
            if (!is_file(path)) continue;
            if (name == "hosts.toml")
                out.hosts.push_back({path, sys::read_file(path, file_limit)});
            else
                out.certificates.push_back(path);
        }
    }
}

void add_registries(migrate::Configuration& out, const std::string& folder) {
    std::vector<std::string> passed_over;
    add_file(out.registries, folder + "/containers/registries.conf");
    for (migrate::File& file : files_in(folder + "/containers/registries.conf.d", ".conf", passed_over))
        out.registries.push_back(std::move(file));
    for (const char* owner : {"/containers", "/docker", "/containerd"}) add_certs(out, cat(folder, owner, "/certs.d"));
}

}  // namespace

migrate::Configuration read_settings(const MigrationSource& from) {
    check_folder(from.enroot, "--enroot");
    migrate::Configuration out;
    out.folder = from.enroot;
    out.site = folders_in(from.enroot);
    add_file(out.settings, from.enroot + "/enroot.conf");
    for (migrate::File& file : files_in(from.enroot + "/enroot.conf.d", ".conf", out.site.passed_over))
        out.settings.push_back(std::move(file));
    for (const std::string& folder : from.users) {
        check_folder(folder, "--user");
        out.users.push_back(folders_in(folder));
        add_file(out.users.back().credentials, folder + "/.credentials");
    }
    std::string plugstack = from.plugstack.empty() ? plugstack_of(folder_of_slurm()) : from.plugstack;
    if (!from.plugstack.empty() || is_file(plugstack)) add_plugstack(out.plugstack, plugstack, 4);
    add_registries(out, from.registries);
    return out;
}

}  // namespace berth::cli
