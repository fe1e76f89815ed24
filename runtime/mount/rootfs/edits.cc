#include "runtime/mount/rootfs/edits.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"
#include "runtime/mount/rootfs/skeleton.hh"

namespace berth::mount {

namespace {

constexpr size_t loader_cache_limit = 16 << 20;

/// What an opened symlink says; empty for anything else.
std::string link_text(int link) {
    std::string out(4096, '\0');
    ssize_t size = ::readlinkat(link, "", out.data(), out.size());
    out.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return out;
}

/// Executes one action; the edit's place in the plan selects its source.
class Executor {
  public:
    Executor(Root& root, const plan::Edit& edit, const Source& source, FreshDirectories& fresh)
        : root_(root), edit_(edit), source_(source), fresh_(fresh) {}

    void operator()(const plan::Mount& mount) const {
        // The overlay has been made with its layers.
        if (!mount.layer) attach(root_, mount, edit_.origin, source_, fresh_);
    }

    void operator()(const plan::Unmount& wanted) const {
        std::string what = cat(printable(wanted.target, 4096), " (", edit_.origin, ")");
        Fd target = root_.open(wanted.target, Missing::fails);
        if (root_.is_root(sys::stat_of(target.get(), what)))
            throw Error(cat("unmounting ", what, ": it is the root of the container"));
        if (!sys::is_mount_root(target.get(), what))
            throw Error(cat("unmounting ", what, ": nothing is mounted there"));
        sys::unmount(target.get(), what);
        root_.forget_places();
    }

    void operator()(const plan::Symlink& link) const {
        Root::Place place = root_.place(link.path, false);
        if (place.name.empty()) return;
        if (place.own && ::symlinkat(link.target.c_str(), place.parent->get(), place.name.c_str()) == 0) return;
        if (Fd existing = exists(place)) {
            bool directory = S_ISDIR(sys::stat_of(existing.get(), printable(link.path, 4096)).st_mode);
            if (!link.replace || !place.own || directory || sys::is_mount_root(existing.get(), link.path)) return;
            if (link_text(existing.get()) == link.target) return;
            return replace(place, link.path, [&](const std::string& fresh) {
                if (::symlinkat(link.target.c_str(), place.parent->get(), fresh.c_str()) != 0)
                    throw SysError(cat("creating the link ", printable(link.path, 4096), " (", edit_.origin, ")"));
            });
        }
        Root::check_may_create(place, link.path);
        if (::symlinkat(link.target.c_str(), place.parent->get(), place.name.c_str()) != 0)
            throw SysError(cat("creating the link ", printable(link.path, 4096), " (", edit_.origin, ")"));
    }

    void operator()(const plan::Directory& directory) const {
        bool is_new = directory.skeleton && is_missing(directory.path);
        Fd made = root_.open(directory.path, Missing::directory, Where::own, directory.mode);
        if (!S_ISDIR(sys::stat_of(made.get(), printable(directory.path, 4096)).st_mode))
            throw Error(cat("creating the directory ", printable(directory.path, 4096), " (", edit_.origin,
                            "): there is something else of that name"));
        if (is_new) copy_skeleton(root_, made.get());
    }

    void operator()(const plan::AccountLine& account) const {
        Root::Place place = root_.place(account.path, true);
        // A file of the node that is mounted there is the node's: it stays as it is.
        if (place.name.empty() || !place.own) return;
        Fd existing = exists(place);
        if (existing && sys::is_mount_root(existing.get(), account.path)) return;
        if (!existing && account.keeps) return;
        std::optional<std::string> content = existing ? readable_file(place, account.path) : std::string();
        if (!content) return;
        std::string changed = plan::with_account_line(*content, account);
        // A named container has its line from the last run, and a file that is not written cannot be half written.
        if (changed == *content) return;
        // The overlay cannot copy up a file of another user.
        struct stat st = existing ? sys::stat_of(existing.get(), printable(account.path, 4096)) : (struct stat){};
        if (existing && st.st_uid != ::geteuid())
            return replace_file(place, account.path, changed, st.st_mode & 0777);
        // O_NONBLOCK: whatever the image has there, opening it does not wait.
        Fd file =
            sys::open_at(place.parent->get(), place.name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0644);
        sys::write_all(file.get(), changed, printable(account.path, 4096));
    }

    void operator()(const plan::DropIn& wanted) const {
        std::string folder = wanted.path.substr(0, wanted.path.rfind('/'));
        try {
            (void)root_.open(folder, Missing::fails);
        } catch (const SysError& error) {
            if (error.number() == ENOENT || error.number() == ENOTDIR) return;
            throw;
        }
        Root::Place place = root_.place(wanted.path, false);
        if (place.name.empty() || !place.own || exists(place)) return;
        replace_file(place, wanted.path, wanted.content);
    }

    void operator()(const plan::LoaderLibraries& added) const {
        if (!added.musl_path.empty()) return add_musl_folder(added);
        if (added.libraries.empty()) return;
        const std::string path = "/etc/ld.so.cache";
        Root::Place place = root_.place(path, true);
        if (place.name.empty() || !place.own) return;
        LoaderCache cache;
        std::string bytes;
        if (exists(place)) {
            bytes = small_file(place, path, loader_cache_limit);
            // A cache that cannot be read is of no use to the loader of the image either.
            try {
                cache = parse_loader_cache(bytes, path);
            } catch (const Error&) {
            }
        }
        add_libraries(cache, added.libraries);
        std::string changed = loader_cache_bytes(std::move(cache));
        if (changed != bytes) replace_file(place, path, changed);
    }

  private:
    /// musl's loader looks into these folders and no others once the file is there.
    void add_musl_folder(const plan::LoaderLibraries& added) const {
        Root::Place place = root_.place(added.musl_path, true);
        if (place.name.empty() || !place.own) return;
        std::string content =
            exists(place) ? small_file(place, added.musl_path, account_file_limit) : "/lib\n/usr/local/lib\n/usr/lib\n";
        for (const std::string& line : split(content, '\n'))
            if (line == added.folder) return;
        replace_file(place, added.musl_path, content + (content.ends_with('\n') ? "" : "\n") + added.folder + "\n");
    }

    bool is_missing(const std::string& path) const {
        try {
            (void)root_.open(path, Missing::fails);
            return false;
        } catch (const SysError& error) {
            return error.number() == ENOENT;
        }
    }

    /// Programs of another container over the same root may read the object, and its start replace it, at any time.
    static void replace(const Root::Place& place, const std::string& path,
                        const std::function<void(const std::string& fresh)>& make) {
        std::string fresh = cat(".berth-", random_word());
        try {
            make(fresh);
            if (::renameat(place.parent->get(), fresh.c_str(), place.parent->get(), place.name.c_str()) != 0)
                throw SysError("replacing " + printable(path, 4096));
        } catch (const Error&) {
            ::unlinkat(place.parent->get(), fresh.c_str(), 0);
            throw;
        }
    }

    static void replace_file(const Root::Place& place, const std::string& path, const std::string& content,
                             mode_t mode = 0644) {
        replace(place, path, [&](const std::string& fresh) {
            Fd file = sys::open_at(place.parent->get(), fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
            sys::write_all(file.get(), content, printable(path, 4096));
        });
    }

    static Fd exists(const Root::Place& place) {
        return sys::open_if_exists(place.parent->get(), place.name, O_PATH | O_NOFOLLOW);
    }

    std::string small_file(const Root::Place& place, const std::string& path, size_t limit) const {
        Fd file = sys::open_at(place.parent->get(), place.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        std::string what = cat(printable(path, 4096), " of the image");
        if (!S_ISREG(sys::stat_of(file.get(), what).st_mode))
            throw Error(cat("reading ", what, ": it is no regular file"));
        return sys::read_all(file.get(), limit, what);
    }

    /// Nothing where another user keeps the file to himself: nobody in the container could read it either.
    std::optional<std::string> readable_file(const Root::Place& place, const std::string& path) const {
        try {
            return small_file(place, path, account_file_limit);
        } catch (const SysError& error) {
            if (error.number() == EACCES) return std::nullopt;
            throw;
        }
    }

    Root& root_;
    const plan::Edit& edit_;
    const Source& source_;
    FreshDirectories& fresh_;
};

}  // namespace

void apply_edits(Root& root, const std::vector<plan::Edit>& edits, const std::vector<Source>& sources,
                 const EditMeans& means) {
    FreshDirectories fresh(means.memory);
    for (size_t i = 0; i < edits.size(); ++i)
        if (!means.done.contains(i)) std::visit(Executor(root, edits[i], sources[i], fresh), edits[i].action);
}

namespace {

/// With the exit code of Berth's own failures: 127 and 126 speak of the command.
[[noreturn]] void refuse_workdir(const std::string& doing, int number) {
    if (number == ENOENT) throw Error(cat(doing, ": ", reason(number), " in the container"));
    throw Error(cat(doing, ": ", reason(number), number == ELOOP ? " (links of /proc are not followed)" : ""));
}

/// Makes a directory that the image names, unless it would be on the node.
Fd make_workdir(const Root& root, const std::string& path, const std::string& doing) {
    try {
        return root.open(path, Missing::directory);
    } catch (const SysError&) {
        throw;
    } catch (const Error&) {
        throw Error(cat(doing,
                        ": it is missing in the directory of the node that is mounted there; make it, or use "
                        "--container-workdir"));
    }
}

}  // namespace

void prepare_workdir(const Root& root, const std::string& path, bool required) {
    std::string doing = cat("entering the working directory ", required ? "of --container-workdir " : "of the image ",
                            printable(path, 4096));
    Fd directory;
    try {
        directory = required ? root.open(path, Missing::fails) : make_workdir(root, path, doing);
    } catch (const SysError& error) {
        refuse_workdir(doing, error.number());
    }
    if (!S_ISDIR(sys::stat_of(directory.get(), doing).st_mode))
        throw Error(cat(doing, ": it is not a directory"));
}

}  // namespace berth::mount
