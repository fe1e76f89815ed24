// What a container will read next, guessed from what it has just read, where nothing is known of its image. Pure but
// for the reading.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/list_places.hh"

namespace berth::mount {

/// How it is read ahead. All of it is of the image; what cannot be done is left out.
struct GuessMeans {
    /// Has the kernel bring bytes of a regular file, as many as there are.
    std::function<void(uint32_t inode, uint64_t offset, uint64_t size)> read;
    /// Has it bring the names of a directory.
    std::function<void(uint32_t directory)> list;
    /// Has it look up a name, whether or not it is there, and read a link.
    std::function<void(uint32_t directory, const std::string& name)> look_up;
    /// At most `size` bytes of a file.
    std::function<std::string(uint32_t inode, uint64_t offset, size_t size)> content;
};

/// Reads, when a container has read some:
/// - the byte code of a package of Python: all of the directory, and the beginnings of the packages in it;
/// - other small files: those beside them with the same ending;
/// - a shared library: a small one whole; of a large one what the loader reads, and what is around each later read; and
///   the libraries that it needs, and modules beside it in a package.
/// All it keeps is bounded by the number of inodes.
class Guess {
  public:
    /// `places` has all files. Refers to both.
    Guess(const squash::Index& index, const squash::ListPlaces& places, GuessMeans means)
        : index_(index), places_(places), means_(std::move(means)) {}

    /// The container has read there, or has looked for a name that is not there.
    void saw_read(uint32_t inode, uint64_t offset);
    void saw_missing(uint32_t directory, std::string_view name);

    /// Does a part of what follows from that: one directory or file. False when there is nothing to do.
    bool step();

  private:
    struct Task {
        enum class Kind { alike, package, library, window };
        Kind kind = Kind::alike;
        uint32_t inode = 0;
        uint64_t offset = 0;
    };
    void saw_first_read(uint32_t inode);
    void read_alike(uint32_t inode);
    void read_package(uint32_t directory);
    void read_library(uint32_t inode);
    void find_library(uint32_t beside, const std::string& name);
    bool has_library(uint32_t directory, const std::string& name);
    uint32_t byte_code_of(uint32_t directory) const;
    void want_packages_in(uint32_t directory);

    const squash::Index& index_;
    const squash::ListPlaces& places_;
    GuessMeans means_;
    std::deque<Task> tasks_;
    std::unordered_set<uint32_t> seen_, packages_, large_libraries_;
    std::set<std::pair<uint32_t, uint64_t>> windows_;
    std::map<std::pair<uint32_t, std::string>, uint32_t> alike_;  ///< files read of a directory, by their ending
    std::map<std::string, uint32_t> missing_;  ///< names that packages have not, and how many of them
    std::vector<uint32_t> library_folders_;
    std::unordered_set<std::string> needed_;
};

}  // namespace berth::mount
