#include "runtime/squash/read/list_places.hh"

#include <sys/stat.h>

#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr size_t path_limit = 4000;

}  // namespace

ListPlaces::ListPlaces(const Index& index, const PrefetchList& list)
    : index_(index), parents_(index.inode_count() + 1) {
    for (const PrefetchExtent& extent : list.extents) wanted_.emplace(extent.inode, Place{});
    for (const MissingName& missing : list.missing) missing_[missing.directory].push_back(missing.name);
    look_into_all();
}

ListPlaces::ListPlaces(const Index& index)
    : index_(index), parents_(index.inode_count() + 1), all_(index.inode_count() + 1) {
    look_into_all();
}

void ListPlaces::look_into_all() {
    std::vector<uint32_t> directories{1};
    for (size_t i = 0; i < directories.size(); ++i) look_into(directories[i], directories);
}

void ListPlaces::look_into(uint32_t directory, std::vector<uint32_t>& directories) {
    uint32_t count = index_.entry_count(directory);
    for (uint32_t position = 0; position < count; ++position) {
        auto entry = index_.entry(directory, position);
        if (!entry || entry->inode == 0 || entry->inode >= parents_.size()) continue;
        Place here{directory, position};
        if (S_ISDIR(entry->mode)) {
            // Whatever the index says, each directory is looked into once.
            if (entry->inode == 1 || parents_[entry->inode].directory != 0) continue;
            parents_[entry->inode] = here;
            directories.push_back(entry->inode);
        } else if (!all_.empty()) {
            if (S_ISREG(entry->mode)) all_[entry->inode] = here;
        } else if (auto found = wanted_.find(entry->inode); found != wanted_.end() && S_ISREG(entry->mode)) {
            if (found->second.directory == 0) ++counts_[directory];
            found->second = here;
        }
    }
}

ListPlaces::Place ListPlaces::place_of(uint32_t inode) const {
    if (!all_.empty()) return inode < all_.size() ? all_[inode] : Place{};
    auto found = wanted_.find(inode);
    return found == wanted_.end() ? Place{} : found->second;
}

std::string ListPlaces::name_at(Place place) const {
    auto entry = place.directory == 0 ? std::nullopt : index_.entry(place.directory, place.position);
    bool is_name = entry && entry->name != "." && entry->name != ".." && entry->name.find('/') == entry->name.npos;
    return is_name ? std::string(entry->name) : std::string();
}

uint32_t ListPlaces::wanted_in(uint32_t directory) const {
    auto found = counts_.find(directory);
    return found == counts_.end() ? 0 : found->second;
}

bool ListPlaces::is_directory(uint32_t inode) const {
    return inode == 1 || (inode < parents_.size() && parents_[inode].directory != 0);
}

const std::vector<std::string>& ListPlaces::missing_in(uint32_t directory) const {
    static const std::vector<std::string> none;
    auto found = missing_.find(directory);
    return found == missing_.end() ? none : found->second;
}

std::string ListPlaces::path_of(uint32_t directory) const {
    std::string out;
    for (; directory != 1; directory = parents_[directory].directory) {
        std::string name = name_at(parents_[directory]);
        if (name.empty() || out.size() + name.size() > path_limit) return {};
        out = out.empty() ? name : cat(name, "/", out);
    }
    return out.empty() ? "." : out;
}

}  // namespace berth::squash
