#include "runtime/mount/rootfs/upper_layer.hh"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "runtime/base/text.hh"
#include "runtime/mount/rootfs/edits.hh"

namespace berth::mount {

namespace {

bool is_at_or_below(const std::string& path, const std::string& target) {
    return path == target || (path.starts_with(target) && (target.ends_with('/') || path[target.size()] == '/'));
}

/// Where a path leads to by plain directories only.
struct Spot {
    struct Above {
        std::string path;
        uint32_t image;  ///< 0: has to be made
    };
    std::vector<Above> above;
    std::string path;               ///< without the leading "/"
    uint32_t image = 0;             ///< what the image has there; 0: nothing
    UpperObject* planned = nullptr;  ///< what is to be made there already
    bool exists() const { return image != 0 || planned; }
};

class Planner {
  public:
    Planner(const std::vector<plan::Edit>& edits, const UpperFacts& facts, UpperLayer& out)
        : edits_(edits), facts_(facts), out_(out) {
        may_hide_ = !facts.saved && std::none_of(edits.begin(), edits.end(), [](const plan::Edit& edit) {
            return std::holds_alternative<plan::Unmount>(edit.action);
        });
    }

    void add(size_t position) {
        position_ = position;
        if (std::visit([this](const auto& action) { return put(action); }, edits_[position].action))
            out_.done.insert(position);
    }

  private:
    /// These say whether the edit is done with.
    bool put(const plan::Mount& mount);
    bool put(const plan::AccountLine& account);
    bool put(const plan::Directory& directory);
    bool put(const plan::Symlink& link);
    bool put(const plan::Unmount&) { return false; }
    bool put(const plan::DropIn&) { return false; }
    bool put(const plan::LoaderLibraries&) { return false; }

    void put_mount_point(const plan::Mount& mount, bool directory, const Spot& spot);
    std::optional<Spot> find(const std::string& path);
    uint32_t below(uint32_t directory, const std::string& path, const std::string& name, UpperObject*& planned);
    bool is_plain_directory(uint32_t number) const;
    bool leads_elsewhere(const Spot& spot) const;
    bool shows_xattrs(uint32_t number) const;
    bool covered(const std::string& path) const {
        return std::any_of(mounted_.begin(), mounted_.end(),
                           [&](const std::string& target) { return is_at_or_below(path, target); });
    }
    void make(const Spot& spot, UpperObject object);

    const std::vector<plan::Edit>& edits_;
    const UpperFacts& facts_;
    UpperLayer& out_;
    size_t position_ = 0;
    bool may_hide_ = true;
    bool surprising_ = false;  ///< a directory may have been mounted elsewhere than its name says, by a symlink
    std::vector<std::string> mounted_;
};

/// These would have to be copied, too.
bool Planner::shows_xattrs(uint32_t number) const {
    if (!facts_.index.has_xattrs()) return false;
    auto names = facts_.index.xattr_names(number);
    return std::any_of(names.begin(), names.end(), squash::shows_xattr);
}

bool Planner::is_plain_directory(uint32_t number) const {
    auto inode = facts_.index.inode(number);
    return inode && S_ISDIR(inode->mode) && !shows_xattrs(number);
}

bool Planner::leads_elsewhere(const Spot& spot) const {
    if (spot.planned) return spot.planned->kind == UpperObject::Kind::symlink;
    return spot.image != 0 && facts_.index.symlink_target(spot.image).has_value();
}

/// What the image shows at `path`, which is `name` in `directory` (0: in one that is new).
uint32_t Planner::below(uint32_t directory, const std::string& path, const std::string& name, UpperObject*& planned) {
    auto known = out_.objects.find(path);
    planned = known == out_.objects.end() ? nullptr : &known->second;
    if (planned) return planned->opaque ? 0 : planned->image;
    return directory == 0 ? 0 : facts_.index.lookup(directory, name);
}

std::optional<Spot> Planner::find(const std::string& path) {
    Spot spot;
    uint32_t number = 1;
    std::vector<std::string> parts = split(std::string_view(path).substr(1), '/');
    for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].empty() || parts[i] == "." || parts[i] == "..") return std::nullopt;
        spot.path += (i == 0 ? "" : "/") + parts[i];
        number = below(number, spot.path, parts[i], spot.planned);
        if (i + 1 == parts.size()) break;
        if (spot.planned && spot.planned->kind != UpperObject::Kind::directory) return std::nullopt;
        if (number != 0 && !is_plain_directory(number)) return std::nullopt;
        spot.above.push_back({spot.path, number});
    }
    spot.image = number;
    return spot;
}

void Planner::make(const Spot& spot, UpperObject object) {
    for (const Spot::Above& directory : spot.above) {
        UpperObject one;
        one.image = directory.image;
        out_.objects.try_emplace(directory.path, one);
    }
    out_.objects.insert_or_assign(spot.path, std::move(object));
}

bool Planner::put(const plan::Mount& mount) {
    using Kind = plan::Mount::Kind;
    // What lies there is known only in the container.
    if (mount.inside) surprising_ = true;
    bool fresh = !comes_from_elsewhere(mount), own = edits_[position_].origin.text() == "system";
    const Source& source = facts_.sources[position_];
    if ((!fresh && !source.is_there()) || mount.kind == Kind::mask) return false;
    bool directory = fresh || source.directory, inside = covered(mount.target);
    std::optional<Spot> spot = inside ? std::nullopt : find(mount.target);
    // A link of the image, or in what was mounted of the node, leads elsewhere. In the kernel's file systems there is
    // none on the way to what the system mounts.
    bool straight = spot ? !leads_elsewhere(*spot) : inside && own;
    if (directory && !straight) surprising_ = true;
    if (spot && straight && !surprising_) put_mount_point(mount, directory, *spot);
    mounted_.push_back(mount.target);
    return false;
}

/// What is there and may not be hidden, or is of another kind, stays, for apply_edits() to find.
void Planner::put_mount_point(const plan::Mount& mount, bool directory, const Spot& spot) {
    using Create = plan::Mount::Create;
    bool own = edits_[position_].origin.text() == "system";
    UpperObject object;
    if (!spot.exists()) {
        if (mount.create == Create::none) return;
        bool as_directory = mount.create == Create::directory || (mount.create == Create::automatic && directory);
        object.kind = as_directory ? UpperObject::Kind::directory : UpperObject::Kind::file;
        object.mode = as_directory ? 0755 : 0644;
        return make(spot, object);
    }
    auto inode = facts_.index.inode(spot.image);
    if (!own || !may_hide_ || spot.planned || !inode || (!S_ISDIR(inode->mode) && !S_ISREG(inode->mode)) ||
        S_ISDIR(inode->mode) != directory)
        return;
    object.kind = directory ? UpperObject::Kind::directory : UpperObject::Kind::file;
    object.image = spot.image;
    object.opaque = directory;
    make(spot, object);
}

bool Planner::put(const plan::AccountLine& account) {
    bool mounted = std::any_of(edits_.begin(), edits_.end(), [&](const plan::Edit& edit) {
        auto* mount = std::get_if<plan::Mount>(&edit.action);
        return mount && is_at_or_below(account.path, mount->target);
    });
    std::optional<Spot> spot = mounted || surprising_ ? std::nullopt : find(account.path);
    if (!spot) return false;
    UpperObject object;
    object.kind = UpperObject::Kind::file;
    object.mode = 0644;
    if (spot->planned) {
        if (spot->planned->kind != UpperObject::Kind::file) return false;
        object = *spot->planned;
    } else if (spot->image != 0) {
        auto file = facts_.index.file(spot->image);
        if (!file || file->size > account_file_limit || shows_xattrs(spot->image)) return false;
        object.image = spot->image;
        object.content = facts_.read(*file, account.path);
    }
    if (account.keeps && !spot->exists()) return true;
    object.content = plan::with_account_line(object.content, account);
    make(*spot, object);
    return true;
}

bool Planner::put(const plan::Directory& directory) {
    std::optional<Spot> spot = surprising_ || covered(directory.path) ? std::nullopt : find(directory.path);
    if (!spot) return false;
    if (spot->planned) return spot->planned->kind == UpperObject::Kind::directory;
    if (spot->image != 0) return S_ISDIR(facts_.index.inode(spot->image).value().mode);
    // Its files are not known to the index alone.
    if (directory.skeleton) return false;
    UpperObject object;
    object.mode = directory.mode;
    make(*spot, object);
    return true;
}

bool Planner::put(const plan::Symlink& link) {
    std::optional<Spot> spot = surprising_ || covered(link.path) ? std::nullopt : find(link.path);
    if (!spot) return false;
    // The one that is to be there already; another one is replaced only in the container.
    if (spot->image != 0 && !spot->planned && facts_.index.symlink_target(spot->image) == link.target) return true;
    if (spot->exists()) return false;
    UpperObject object;
    object.kind = UpperObject::Kind::symlink;
    object.content = link.target;
    make(*spot, object);
    return true;
}

}  // namespace

UpperLayer upper_layer(const std::vector<plan::Edit>& edits, const UpperFacts& facts) {
    UpperLayer out;
    Planner planner(edits, facts, out);
    for (size_t i = 0; i < edits.size(); ++i) planner.add(i);
    return out;
}

}  // namespace berth::mount
