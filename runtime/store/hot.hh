// Files of images that are kept unpacked, as folders of the store that containers have as a layer of their root: found
// and leased, checked, removed.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/fd.hh"
#include "runtime/config/words.hh"
#include "runtime/store/store.hh"

namespace berth::store {

/// What a folder is of: the image's index, what containers show of it, and the list that says what is in it.
struct HotKey {
    std::string index;  ///< Index::id()
    gid_t gid = 0;      ///< of all in it, in the caller's user namespace at the start
    plan::ImageModes modes = plan::ImageModes::enroot;
    std::string boot = {};  ///< boot_word()
    int64_t learnt = 0;     ///< see PrefetchList
};

/// Bytes on disk at most. 0: nothing is kept.
struct HotLimits {
    uint64_t image = 0;
    uint64_t store = 0;
    bool wanted() const { return image != 0 && store != 0; }
};

/// hot/KEY.BOOT.LEARNT.N/{root/,manifest}: nothing in it changes. BOOT is the boot of the node: what was written in an
/// earlier one is not used, since nothing waits for its bytes to be on the disk.
struct HotFolder {
    Fd lease;          ///< of the folder: while it or a copy is open, nobody removes what is in it
    std::string name;  ///< in hot/
    std::string root;  ///< path of the root directory
    std::pair<uint64_t, uint64_t> identity = {};  ///< device and inode of that
};

/// The newest whole folder of the key; nothing when there is none that can be used.
std::optional<HotFolder> find_hot(const Store& store, const HotKey& key);

/// Names of the folders of a key, without their last numbers.
std::string hot_prefix(const HotKey& key);
/// The last number of a name with this prefix; nothing for one that is of no whole folder.
std::optional<uint64_t> hot_number(const std::string& name, const std::string& prefix);
/// Eight digits of this boot of the node; empty when the kernel does not tell.
std::string boot_word();

/// Whether folders can be kept in the file system of `hot`: a local one that an overlay takes as a layer.
bool can_keep_hot(int hot);

/// The bytes of the files of a whole folder, as its manifest says; 0 when it says nothing.
uint64_t hot_bytes(int folder);
/// The manifest of a root that is complete: size, times, inode and mode of each object. `paths` are below it.
std::string hot_manifest(int root, const std::vector<std::string>& paths, uint64_t bytes);
/// Compares a folder with its manifest: the first object that is another one now, empty when none is.
std::string hot_change(int folder);

/// Takes the folder out of use: no start finds it any more, and those that have it go on. `why`, one line, is what
/// take_hot_note() returns next.
void give_up_hot(int hot, const std::string& name, const std::string& why);
/// What has been given up since the last call; empty: nothing.
std::string take_hot_note(const Store& store);
/// The kernel has no overlay of several layers for users: until the next boot no folder is found.
void refuse_hot(int hot, const std::string& boot, const std::string& why);

/// Removes a folder, or a partial one, that nobody uses or writes. False when somebody does.
bool remove_hot(int hot, const std::string& name);
/// Removes those of an index; and those that have not been used for `age` seconds, are of another boot, or are partial
/// and a day old.
void remove_hot_of(const Store& store, const std::string& index);
void sweep_hot(const Store& store, int64_t age);
/// On disk, of all folders.
uint64_t hot_disk_bytes(int hot);

}  // namespace berth::store
