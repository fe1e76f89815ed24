// Where in the tree of an image the files and directories of a prefetch list are. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/prefetch_list.hh"

namespace berth::squash {

/// Looks through the whole tree once. Refers to the index.
class ListPlaces {
  public:
    ListPlaces(const Index& index, const PrefetchList& list);
    /// Of all files.
    explicit ListPlaces(const Index& index);

    struct Place {
        uint32_t directory = 0;  ///< 0: no such file
        uint32_t position = 0;
    };
    /// Of a regular file of the list.
    Place place_of(uint32_t inode) const;
    /// Its name there; empty when there is none, or it is none that a directory can have.
    std::string name_at(Place place) const;
    /// How many files of the list the directory has.
    uint32_t wanted_in(uint32_t directory) const;
    /// Whether the number is that of a directory of the tree.
    bool is_directory(uint32_t inode) const;
    /// Names that are looked for in vain.
    const std::vector<std::string>& missing_in(uint32_t directory) const;
    /// Of a directory that has been met; 1 is its own.
    uint32_t parent(uint32_t directory) const { return directory == 1 ? 1 : parents_[directory].directory; }
    /// From the root, without a slash at its start; "." for the root itself, empty for one that is too long.
    std::string path_of(uint32_t directory) const;

  private:
    void look_into_all();
    void look_into(uint32_t directory, std::vector<uint32_t>& directories);

    const Index& index_;
    std::vector<Place> parents_;  ///< of directories, by number
    std::unordered_map<uint32_t, Place> wanted_;
    std::vector<Place> all_;  ///< of regular files, by number; empty: `wanted_` has them
    std::unordered_map<uint32_t, uint32_t> counts_;
    std::unordered_map<uint32_t, std::vector<std::string>> missing_;
};

}  // namespace berth::squash
