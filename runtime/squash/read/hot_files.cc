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

class Choice {
  public:
    Choice(const Index& index, const PrefetchList& list, plan::ImageModes modes, uint64_t most)
        : index_(index), places_(index, list), modes_(modes), most_(most) {}

    void add(uint32_t inode) {
        if (!seen_.insert(inode).second) return;
        auto view = index_.inode(inode);
        ListPlaces::Place place = places_.place_of(inode);
        if (!view || place.directory == 0 || view->size > most_ - out_.bytes) return;
        uint32_t mode = shown_mode(view->mode, modes_);
        bool is_plain = S_ISREG(mode) && view->nlink == 1 && (mode & (S_ISUID | S_ISGID)) == 0 && (mode & S_IRUSR) != 0;
        std::string name = places_.name_at(place);
        if (!is_plain || name.empty() || index_.hole_bytes(inode) != 0 || shows_attributes(index_, inode)) return;
        const std::string* folder = directory(place.directory);
        if (folder == nullptr) return;
        out_.files.push_back({inode, *folder == "." ? name : cat(*folder, "/", name), view->size, mode, view->mtime});
        out_.bytes += view->size;
    }

    HotFiles take() { return std::move(out_); }

  private:
    /// Its path, after it has been noted with those above it; null when nothing of it can be kept.
    const std::string* directory(uint32_t inode) {
        auto known = directories_.find(inode);
        if (known == directories_.end()) known = directories_.emplace(inode, note(inode)).first;
        return known->second.empty() ? nullptr : &known->second;
    }

    std::string note(uint32_t inode) {
        if (inode != 1 && directory(places_.parent(inode)) == nullptr) return {};
        auto view = index_.inode(inode);
        std::string path = places_.path_of(inode);
        if (!view || path.empty() || shows_attributes(index_, inode)) return {};
        uint32_t mode = shown_mode(view->mode, modes_);
        if ((mode & S_IRWXU) != S_IRWXU) return {};
        out_.directories.push_back({inode, path, 0, mode, view->mtime});
        return path;
    }

    const Index& index_;
    ListPlaces places_;
    plan::ImageModes modes_;
    uint64_t most_;
    HotFiles out_;
    std::unordered_set<uint32_t> seen_;
    std::unordered_map<uint32_t, std::string> directories_;
};

}  // namespace

HotFiles hot_files(const Index& index, const PrefetchList& list, plan::ImageModes modes, uint64_t most) {
    Choice choice(index, list, modes, most);
    for (const PrefetchExtent& extent : list.extents)
        if (extent.count != 0) choice.add(extent.inode);
    return choice.take();
}

bool is_worth_writing(uint64_t has, uint64_t wanted) {
    return wanted > has && wanted - has > has / 4;
}

}  // namespace berth::squash
