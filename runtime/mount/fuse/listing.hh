// How much a listing of a directory says of its files. Whole entries save a lookup for each file that is used later,
// and cost the kernel an inode for each that is not: thirty to sixty microseconds against four to six. A program that
// imports or builds reads between its listings; what lists on and on without reading walks the tree, and whether it
// looks at the files is seen from its lookups after a listing that did not tell of them.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace berth::mount {

/// Shared by the server's threads; a race costs a wrong guess at most.
class Listing {
  public:
    /// `walks`: the first listings are those of a walk already.
    explicit Listing(bool walks = false) : unread_{walks ? walk : 0} {}

    /// Whether the next entries of `directory` are sent with attributes. Directories among them always are: who walks a
    /// tree goes into them.
    bool tells_files(uint32_t directory);

    /// A name of `directory` that is no directory has been looked up.
    void looked_up(uint32_t directory);

    /// A file has been read.
    void has_read();

    static constexpr uint32_t walk = 16;       ///< listings without a reading between them that make a walk
    static constexpr uint32_t enough = 4;      ///< lookups after a short listing that show that files are looked at
    /// whole listings after that, before the next short one is tried; each time it is wrong twice as many
    static constexpr uint32_t first_run = 64;
    static constexpr uint32_t last_run = 4096;
    /// short listings without such lookups that make the next run the first again
    static constexpr uint32_t quiet = 32;

  private:
    std::atomic<uint32_t> unread_, whole_left_{0}, run_{first_run}, missed_{0}, short_ones_{0};
    // By the directory's number: those that were listed without attributes a while ago.
    std::array<std::atomic<uint32_t>, 256> listed_briefly_{};
};

}  // namespace berth::mount
