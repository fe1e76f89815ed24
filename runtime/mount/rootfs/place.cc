// Looking names up and making them inside a root (the part of root.hh that meets hostile symlinks).
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/rootfs/root.hh"

namespace berth::mount {

namespace {

constexpr int link_limit = 40;

std::string joined(const std::vector<std::string>& parts) {
    std::string path = "/";
    for (const std::string& part : parts) path.append(path.size() > 1 ? "/" : "").append(part);
    return path;
}

std::string link_text(int link, const std::string& path) {
    char text[PATH_MAX];
    ssize_t size = ::readlinkat(link, "", text, sizeof text);
    if (size < 0) throw SysError(cat("reading the link ", printable(path, 4096)));
    return {text, static_cast<size_t>(size)};
}

/// Walks a path part by part, each looked up from the root anew, so that nothing a rename or a symlink does leads out
/// of it.
class Walk {
  public:
    Walk(const Root& root, const std::string& path, Where where) : root_(root), path_(path), where_(where) {
        push(path);
    }

    Root::Place run(bool follow_last) {
        while (!todo_.empty()) {
            std::string part = std::move(todo_.front());
            todo_.pop_front();
            if (part == "..") {
                if (!done_.empty()) done_.pop_back();
            } else {
                step(std::move(part), follow_last);
            }
        }
        return finished();
    }

  private:
    /// Puts the parts of `path` before those that are left.
    void push(const std::string& path) {
        std::deque<std::string> parts;
        for (std::string& part : split(path, '/'))
            if (!part.empty() && part != ".") parts.push_back(std::move(part));
        todo_.insert(todo_.begin(), parts.begin(), parts.end());
    }

    void step(std::string part, bool follow_last) {
        bool last = todo_.empty();
        done_.push_back(std::move(part));
        std::string here = joined(done_);
        // The object itself: symlinks are not followed in the last part.
        Fd object = sys::find_in_root(root_.fd(), here, O_PATH | O_NOFOLLOW);
        if (!object) {
            if (!last) make_directory();
            return;
        }
        if (last && !follow_last) return;
        if (S_ISLNK(sys::stat_of(object.get(), here).st_mode)) follow(object.get(), here);
    }

    void follow(int link, const std::string& here) {
        if (++links_ > link_limit)
            throw SysError(cat("following ", printable(path_, 4096), " in the container"), ELOOP);
        std::string target = link_text(link, here);
        redirected_ = true;
        done_.pop_back();
        if (target.starts_with('/')) done_.clear();
        push(target);
    }

    void make_directory() {
        Root::Place place = finished();
        Root::check_may_create(place, path_, where_);
        if (::mkdirat(place.parent->get(), place.name.c_str(), 0755) != 0 && errno != EEXIST)
            throw SysError(cat("creating ", printable(joined(done_), 4096), " in the container"));
    }

    Root::Place finished() const {
        std::vector<std::string> above = done_;
        Root::Place place;
        place.redirected = redirected_;
        if (!above.empty()) {
            place.name = std::move(above.back());
            above.pop_back();
        }
        place.parent = std::make_shared<Fd>(sys::open_in_root(root_.fd(), joined(above), O_PATH | O_DIRECTORY));
        place.own = root_.owns(place.parent->get());
        return place;
    }

    const Root& root_;
    const std::string& path_;
    Where where_;
    std::vector<std::string> done_;
    std::deque<std::string> todo_;
    int links_ = 0;
    bool redirected_ = false;
};

}  // namespace

std::optional<Root::Place> Root::plain_place(const std::string& path) const {
    // With "..", what comes before it would have to be looked at.
    for (const std::string& part : split(path, '/'))
        if (part == "." || part == "..") return std::nullopt;
    size_t slash = path.rfind('/');
    Place place;
    place.name = path.substr(slash + 1);
    if (place.name.empty()) return std::nullopt;
    std::string folder = slash == 0 ? "." : path.substr(1, slash - 1);
    place.parent = last_.path == folder ? last_.directory : nullptr;
    place.own = place.parent != nullptr;
    if (place.parent) return place;
    Fd found = sys::find_beneath(fd(), folder, O_PATH | O_DIRECTORY);
    if (!found) return std::nullopt;
    place.parent = std::make_shared<Fd>(std::move(found));
    place.own = owns(place.parent->get());
    // A directory of the node may be moved elsewhere meanwhile.
    if (place.own) last_ = {std::move(folder), place.parent};
    return place;
}

Root::Place Root::place(const std::string& path, bool follow_last, Where where) const {
    if (!follow_last)
        if (std::optional<Place> plain = plain_place(path)) return std::move(*plain);
    return Walk(*this, path, where).run(follow_last);
}

void Root::check_may_create(const Place& place, const std::string& path, Where where) {
    if (place.own || (where == Where::named && !place.redirected)) return;
    throw Error(cat("creating ", printable(path, 4096), " in the container: that would be in a directory of the node",
                    place.redirected ? ", by a symlink" : ""));
}

namespace {

/// False when there is something of that name.
bool make(const Root::Place& at, const std::string& path, Missing missing, mode_t mode) {
    int failed = missing == Missing::directory ? ::mkdirat(at.parent->get(), at.name.c_str(), mode)
                                               : ::mknodat(at.parent->get(), at.name.c_str(), S_IFREG | 0644, 0);
    if (failed != 0 && errno != EEXIST) throw SysError(cat("creating ", printable(path, 4096), " in the container"));
    return failed == 0;
}

}  // namespace

Fd Root::open(const std::string& path, Missing missing, Where where, mode_t mode) const {
    std::optional<Place> at = plain_place(path);
    Fd existing = at ? sys::find_beneath(at->parent->get(), at->name, O_PATH) : Fd();
    if (existing) return existing;
    bool is_missing = at && errno == ENOENT;
    if (missing == Missing::fails) return sys::open_in_root(fd(), path, O_PATH);
    if (!is_missing) existing = sys::find_in_root(fd(), path, O_PATH);
    if (existing) return existing;
    if (at) check_may_create(*at, path, where);
    // What is there, but was not found, is a symlink to nothing: what is made is made where it leads.
    if (!at || !make(*at, path, missing, mode)) {
        at = place(path, true, where);
        check_may_create(*at, path, where);
        make(*at, path, missing, mode);
    }
    return sys::open_beneath(at->parent->get(), at->name, O_PATH | O_NOFOLLOW);
}

}  // namespace berth::mount
