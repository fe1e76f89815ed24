#include "runtime/mount/rootfs/others.hh"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <type_traits>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

constexpr int follow_limit = 40;

std::optional<Change> change_of(const plan::Action& action) {
    return std::visit(
        [](const auto& one) -> std::optional<Change> {
            using Kind = std::decay_t<decltype(one)>;
            if constexpr (std::is_same_v<Kind, plan::Mount>) {
                if (one.create == plan::Mount::Create::none || one.kind == plan::Mount::Kind::mask) return {};
                return Change{one.target};
            } else if constexpr (std::is_same_v<Kind, plan::Symlink>) {
                return Change{one.path, one.replace, false};
            } else if constexpr (std::is_same_v<Kind, plan::AccountLine>) {
                return Change{one.path, true};
            } else if constexpr (std::is_same_v<Kind, plan::LoaderLibraries>) {
                return Change{one.musl_path.empty() ? "/etc/ld.so.cache" : one.musl_path, true};
            } else if constexpr (std::is_same_v<Kind, plan::Unmount>) {
                return {};
            } else {
                return Change{one.path};
            }
        },
        action);
}

/// The directories that a path leads through in the image, and how they are there.
struct Way {
    struct Directory {
        std::string path;  ///< from the root, without the leading "/", no symlink in it
        struct stat st;
    };
    std::vector<Directory> directories;
    bool complete = false;  ///< there is something at its end
};

/// Walks part by part, so that no symlink leads out of the image.
class ImageWalk {
  public:
    explicit ImageWalk(int image) : image_(image) {}

    /// Nothing where the caller cannot look.
    std::optional<Way> run(const Change& change) try {
        push(change.path);
        while (!todo_.empty()) {
            std::string part = std::move(todo_.front());
            todo_.pop_front();
            if (part == "..") {
                if (!way_.directories.empty()) way_.directories.pop_back();
            } else if (!step(part, change.follows_last)) {
                return std::move(way_);
            }
        }
        way_.complete = true;
        return std::move(way_);
    } catch (const SysError& error) {
        if (error.number() == EACCES || error.number() == ELOOP) return std::nullopt;
        throw;
    }

  private:
    void push(const std::string& path) {
        std::deque<std::string> parts;
        for (std::string& part : split(path, '/'))
            if (!part.empty() && part != ".") parts.push_back(std::move(part));
        todo_.insert(todo_.begin(), parts.begin(), parts.end());
    }

    /// False at the end of the way.
    bool step(const std::string& part, bool follows_last) {
        std::string path = way_.directories.empty() ? part : way_.directories.back().path + "/" + part;
        Fd object = sys::find_beneath(image_, path, O_PATH | O_NOFOLLOW);
        if (!object) return false;
        struct stat st = sys::stat_of(object.get(), path);
        if (S_ISDIR(st.st_mode)) {
            way_.directories.push_back({path, st});
            return true;
        }
        if (S_ISLNK(st.st_mode) && (!todo_.empty() || follows_last)) {
            follow(object.get(), path);
            return true;
        }
        way_.complete = todo_.empty();
        return false;
    }

    void follow(int link, const std::string& path) {
        std::string text(PATH_MAX, '\0');
        ssize_t size = ++links_ > follow_limit ? -1 : ::readlinkat(link, "", text.data(), text.size());
        if (size < 0) throw SysError(cat("following /", printable(path, 4096), " of the image"), ELOOP);
        text.resize(static_cast<size_t>(size));
        if (text.starts_with('/')) way_.directories.clear();
        push(text);
    }

    int image_;
    std::deque<std::string> todo_;
    Way way_;
    int links_ = 0;
};

bool belongs_to_another(const Way::Directory& directory) { return directory.st.st_uid != ::geteuid(); }

/// Makes what is missing of the way; adds that to `made`.
void make_way(const Way& way, int upper, std::vector<Way::Directory>& made) {
    for (const Way::Directory& directory : way.directories) {
        size_t slash = directory.path.rfind('/');
        std::string above = slash == directory.path.npos ? "." : directory.path.substr(0, slash);
        // In a container from before it may be a file or a link by now.
        Fd parent = sys::find_beneath(upper, above, O_PATH | O_DIRECTORY);
        if (!parent) return;
        std::string name = slash == directory.path.npos ? directory.path : directory.path.substr(slash + 1);
        if (::mkdirat(parent.get(), name.c_str(), 0700) == 0)
            made.push_back(directory);
        else if (errno != EEXIST)
            throw SysError(cat("creating /", printable(directory.path, 4096), " in the container"));
    }
}

/// After all of them are made, which would change the times again.
void finish_taken(const Way::Directory& directory, int upper) {
    timespec times[2] = {directory.st.st_atim, directory.st.st_mtim};
    if (::utimensat(upper, directory.path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::fchmodat(upper, directory.path.c_str(), directory.st.st_mode & 07777, 0) != 0)
        throw SysError(cat("preparing /", printable(directory.path, 4096), " of the container"));
}

}  // namespace

std::vector<Change> changes_of(const plan::Plan& plan) {
    std::vector<Change> out;
    std::vector<std::string> mounted;
    auto add = [&](const Change& change) {
        auto covers = [&](const std::string& target) { return plan::is_below(change.path, target); };
        if (std::none_of(mounted.begin(), mounted.end(), covers)) out.push_back(change);
    };
    for (const plan::Edit& edit : plan.edits) {
        if (auto change = change_of(edit.action)) add(*change);
        auto* mount = std::get_if<plan::Mount>(&edit.action);
        if (mount && !mount->layer) mounted.push_back(mount->target);
    }
    if (!plan.workdir_required) add({plan.workdir});
    return out;
}

void take_over_directories(int image, int upper, const std::vector<Change>& changes) {
    std::vector<Way::Directory> made;
    for (const Change& change : changes) {
        auto way = ImageWalk(image).run(change);
        if (!way || (way->complete && !change.also_if_there)) continue;
        if (std::any_of(way->directories.begin(), way->directories.end(), belongs_to_another))
            make_way(*way, upper, made);
    }
    for (auto directory = made.rbegin(); directory != made.rend(); ++directory) finish_taken(*directory, upper);
}

}  // namespace berth::mount
