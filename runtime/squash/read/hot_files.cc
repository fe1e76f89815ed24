#include "runtime/squash/read/hot_files.hh"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/text.hh"
#include "runtime/squash/index/shown_mode.hh"
#include "runtime/squash/read/list_places.hh"

namespace berth::squash {

namespace {

bool shows_attributes(const Index& index, uint32_t inode) {
    return std::ranges::any_of(index.xattr_names(inode), shows_xattr);
}

constexpr int most_links = 4;

class Choice {
  public:
    Choice(const Index& index, const PrefetchList& list, plan::ImageModes modes, uint64_t most)
        : index_(index), places_(index, list), modes_(modes), most_(most) {}

    void add(uint32_t inode) {
        ListPlaces::Place place = places_.place_of(inode);
        if (place.directory != 0 && is_kept(inode)) keep(inode, place.directory, places_.name_at(place));
    }

    void complete_directories() {
        // From below, so that what is complete already is no rest of those above it.
        for (size_t i = out_.directories.size(); i-- > 0;) {
            Rest rest;
            uint32_t directory = out_.directories[i].inode;
            if (!find_rest(directory, rest) || rest.bytes > most_ - out_.bytes) continue;
            for (const Rest::Object& object : rest.objects) keep(object.inode, object.directory, object.name);
            complete_.insert(directory);
            complete_.insert(rest.directories.begin(), rest.directories.end());
        }
        for (HotObject& directory : out_.directories) directory.complete = complete_.contains(directory.inode);
    }

    void add_links() {
        std::vector<uint32_t> partial;
        for (const HotObject& directory : out_.directories)
            if (!directory.complete) partial.push_back(directory.inode);
        for (uint32_t directory : partial) {
            for (uint32_t position = 0; position < index_.entry_count(directory); ++position) {
                auto entry = index_.entry(directory, position);
                if (entry && S_ISLNK(entry->mode) && is_kept(entry->inode) && leads_to_file(directory, entry->inode))
                    keep(entry->inode, directory, places_.name_at({directory, position}));
            }
        }
    }

    void add_missing(const MissingName& missing) {
        auto known = directories_.find(missing.directory);
        if (known == directories_.end() || known->second.empty() || complete_.contains(missing.directory) ||
            index_.lookup(missing.directory, missing.name) != 0)
            return;
        out_.missing.push_back(path_in(known->second, missing.name));
    }

    HotFiles take() { return std::move(out_); }

  private:
    /// What a directory has that is not kept.
    struct Rest {
        struct Object {
            uint32_t inode, directory;
            std::string name;
        };
        std::vector<Object> objects = {};
        std::vector<uint32_t> directories = {};
        uint64_t bytes = 0;
    };

    static std::string path_in(const std::string& folder, const std::string& name) {
        return folder == "." ? name : cat(folder, "/", name);
    }

    /// False where it is too much, or something that cannot be kept.
    bool find_rest(uint32_t directory, Rest& rest) {
        if (complete_.contains(directory)) return true;
        uint32_t count = index_.entry_count(directory);
        for (uint32_t position = 0; position < count; ++position) {
            auto entry = index_.entry(directory, position);
            std::string name = places_.name_at({directory, position});
            if (!entry || name.empty()) return false;
            if (files_.contains(entry->inode)) continue;
            if (rest.objects.size() + rest.directories.size() == hot_rest_objects) return false;
            if (S_ISDIR(entry->mode)) {
                // Whatever the index says, each directory is in one other.
                bool is_below = entry->inode != 1 && places_.is_directory(entry->inode) &&
                                places_.parent(entry->inode) == directory && is_kept_directory(entry->inode);
                if (!is_below || !find_rest(entry->inode, rest)) return false;
                rest.directories.push_back(entry->inode);
                continue;
            }
            if (!is_kept(entry->inode)) return false;
            rest.bytes += S_ISREG(entry->mode) ? index_.inode(entry->inode)->size : 0;
            if (rest.bytes > hot_rest_bytes) return false;
            rest.objects.push_back({entry->inode, directory, name});
        }
        return true;
    }

    /// Whether a file or link can be kept.
    bool is_kept(uint32_t inode) const {
        auto view = index_.inode(inode);
        if (!view || view->nlink != 1 || shows_attributes(index_, inode)) return false;
        if (S_ISLNK(view->mode)) return (view->mode & 07777) == 0777 && index_.symlink_target(inode);
        uint32_t mode = shown_mode(view->mode, modes_);
        return S_ISREG(mode) && (mode & (S_ISUID | S_ISGID)) == 0 && (mode & S_IRUSR) != 0 &&
               index_.hole_bytes(inode) == 0;
    }

    bool is_kept_directory(uint32_t inode) const {
        auto view = index_.inode(inode);
        return view && (shown_mode(view->mode, modes_) & S_IRWXU) == S_IRWXU && !shows_attributes(index_, inode);
    }

    void keep(uint32_t inode, uint32_t directory_inode, const std::string& name) {
        auto view = index_.inode(inode);
        uint64_t size = S_ISREG(view->mode) ? view->size : 0;
        if (name.empty() || files_.contains(inode) || size > most_ - out_.bytes) return;
        const std::string* folder = directory(directory_inode);
        if (folder == nullptr) return;
        files_.insert(inode);
        out_.files.push_back({inode, path_in(*folder, name), size, shown_mode(view->mode, modes_), view->mtime,
                              std::string(index_.symlink_target(inode).value_or(""))});
        out_.bytes += size;
    }

    /// Whether a link leads to a file that is kept, in its own directory.
    bool leads_to_file(uint32_t directory, uint32_t inode) const {
        for (int links = 0; links < most_links && inode != 0; ++links) {
            auto target = index_.symlink_target(inode);
            if (!target) return files_.contains(inode);
            inode = target->find('/') == target->npos ? index_.lookup(directory, *target) : 0;
        }
        return false;
    }

    /// Its path, after it has been noted with those above it; null when nothing of it can be kept.
    const std::string* directory(uint32_t inode) {
        auto known = directories_.find(inode);
        if (known == directories_.end()) known = directories_.emplace(inode, note(inode)).first;
        return known->second.empty() ? nullptr : &known->second;
    }

    std::string note(uint32_t inode) {
        if (inode != 1 && directory(places_.parent(inode)) == nullptr) return {};
        std::string path = places_.path_of(inode);
        if (path.empty() || !is_kept_directory(inode)) return {};
        auto view = index_.inode(inode);
        out_.directories.push_back({inode, path, 0, shown_mode(view->mode, modes_), view->mtime});
        return path;
    }

    const Index& index_;
    ListPlaces places_;
    plan::ImageModes modes_;
    uint64_t most_;
    HotFiles out_;
    std::unordered_set<uint32_t> files_;     ///< and links, that are kept
    std::unordered_set<uint32_t> complete_;  ///< directories
    std::unordered_map<uint32_t, std::string> directories_;
};

}  // namespace

HotFiles hot_files(const Index& index, const PrefetchList& list, plan::ImageModes modes, uint64_t most) {
    Choice choice(index, list, modes, most);
    for (const PrefetchExtent& extent : list.extents)
        if (extent.count != 0) choice.add(extent.inode);
    choice.complete_directories();
    choice.add_links();
    for (const MissingName& missing : list.missing) choice.add_missing(missing);
    return choice.take();
}

bool is_worth_writing(uint64_t has, uint64_t wanted) {
    return wanted > has && wanted - has > has / 4;
}

}  // namespace berth::squash
