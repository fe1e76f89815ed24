#include "runtime/store/hot.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

constexpr std::string_view hot_magic = "berthhot1 ";
constexpr size_t manifest_limit = 32 << 20;
constexpr size_t boot_digits = 8;
constexpr int64_t hot_partial_age = 24 * 3600;
constexpr time_t hot_use_resolution = 60;
constexpr const char* note_file = "note";
constexpr const char* gone_prefix = "gone.";

std::string folder_key(const HotKey& key) {
    return cat(key.index, '.', key.gid, '.', key.modes == plan::ImageModes::enroot ? "enroot." : "image.");
}

std::string refusal(const std::string& boot) {
    return cat("refused.", boot);
}

bool is_object(const std::string& name, const std::string& boot) {
    return name != note_file && name != refusal(boot);
}

std::string facts_of(const struct stat& st) {
    int64_t mtime = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
    int64_t ctime = int64_t{st.st_ctim.tv_sec} * 1'000'000'000 + st.st_ctim.tv_nsec;
    // A directory's size and links are those of the file system.
    return cat(st.st_ino, ' ', st.st_mode, ' ', S_ISDIR(st.st_mode) ? 0 : st.st_size, ' ', mtime, ' ', ctime, ' ');
}

std::string facts_at(int root, const std::string& path) {
    struct stat st {};
    return ::fstatat(root, path.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 ? facts_of(st) : std::string();
}

void write_text_at(int folder, const std::string& name, std::string_view text) {
    Fd file = sys::open_at(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), text, name);
}

std::string text_at(int folder, const std::string& name, size_t limit) {
    Fd file = sys::open_if_exists(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return file ? sys::read_all(file.get(), limit, name) : std::string();
}

/// Without an error: what is left over is found again.
void remove_if_unused(int hot, const std::string& name) try { remove_hot(hot, name); } catch (const Error&) {
}

uint64_t tree_bytes(int parent, const std::string& name, unsigned levels = 256) {
    struct stat st {};
    if (::fstatat(parent, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    uint64_t sum = static_cast<uint64_t>(st.st_blocks) * 512;
    if (!S_ISDIR(st.st_mode) || levels == 0) return sum;
    Fd folder = sys::try_open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!folder) return sum;
    for (const std::string& below : sys::list_directory(folder.get(), name))
        sum += tree_bytes(folder.get(), below, levels - 1);
    return sum;
}

std::string newest_of(int hot, const HotKey& key) {
    std::string prefix = hot_prefix(key), newest;
    uint64_t most = 0;
    for (const std::string& name : sys::list_directory(hot, "hot"))
        if (auto number = hot_number(name, prefix); number && (newest.empty() || *number > most))
            most = *number, newest = name;
    return newest;
}

}  // namespace

std::string boot_word() try {
    Fd file = sys::open_file("/proc/sys/kernel/random/boot_id", O_RDONLY);
    return sys::read_all(file.get(), 64, "the boot's number").substr(0, boot_digits);
} catch (const Error&) {
    return {};
}

std::string hot_prefix(const HotKey& key) {
    return cat(folder_key(key), key.boot, '.', key.learnt, '.');
}

std::optional<uint64_t> hot_number(const std::string& name, const std::string& prefix) {
    uint64_t number = 0;
    if (!name.starts_with(prefix) || !parse_number(name.substr(prefix.size()), UINT32_MAX, number)) return std::nullopt;
    return number;
}

bool can_keep_hot(int hot) {
    constexpr std::array<uint32_t, 3> local{0xEF53, 0x58465342, 0x9123683E};  // ext4, xfs, btrfs
    struct statfs fs {};
    return ::fstatfs(hot, &fs) == 0 &&
           std::find(local.begin(), local.end(), static_cast<uint32_t>(fs.f_type)) != local.end() &&
           (static_cast<unsigned long>(fs.f_flags) & ST_NOEXEC) == 0;
}

std::optional<HotFolder> find_hot(const Store& store, const HotKey& key) {
    Fd hot = store.directory("hot");
    bool is_refused = ::faccessat(hot.get(), refusal(key.boot).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (key.boot.empty() || is_refused) return {};
    std::string name = newest_of(hot.get(), key);
    if (name.empty() || !can_keep_hot(hot.get())) return {};
    HotFolder out{sys::open_beneath(hot.get(), name, O_RDONLY | O_DIRECTORY), name,
                  cat(store.path(), "/hot/", name, "/root")};
    struct stat st = sys::stat_of(out.lease.get(), name), named{};
    if (st.st_uid != ::geteuid() || (st.st_mode & 0077) != 0) return {};
    // Whoever removes it renames it first, under its own lock.
    if (::flock(out.lease.get(), LOCK_SH | LOCK_NB) != 0 ||
        ::fstatat(hot.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != st.st_ino)
        return {};
    Fd root = sys::open_beneath(out.lease.get(), "root", O_PATH | O_DIRECTORY);
    struct stat top = sys::stat_of(root.get(), name);
    if (top.st_uid != st.st_uid || top.st_dev != st.st_dev) return {};
    out.identity = {top.st_dev, top.st_ino};
    if (::time(nullptr) - st.st_mtime >= hot_use_resolution) ::futimens(out.lease.get(), nullptr);
    return out;
}

uint64_t hot_bytes(int folder) {
    Fd file = sys::try_open_at(folder, "manifest", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    char head[32] = "";
    long got = file ? ::pread(file.get(), head, sizeof head, 0) : 0;
    std::string_view text(head, static_cast<size_t>(std::max(got, 0L)));
    uint64_t bytes = 0;
    size_t end = text.find('\n');
    if (!text.starts_with(hot_magic) || end == text.npos ||
        !parse_number(std::string(text.substr(hot_magic.size(), end - hot_magic.size())), UINT64_MAX, bytes))
        return 0;
    return bytes;
}

std::string hot_manifest(int root, const std::vector<std::string>& paths, uint64_t bytes) {
    std::string out = cat(hot_magic, bytes, '\n');
    for (const std::string& path : paths) out.append(facts_at(root, path)).append(path).push_back('\0');
    return out;
}

std::string hot_change(int folder) {
    std::string text = text_at(folder, "manifest", manifest_limit);
    Fd root = sys::try_open_at(folder, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!text.starts_with(hot_magic) || !root) return "its manifest";
    size_t at = text.find('\n') + 1;
    for (size_t end = 0; (end = text.find('\0', at)) != text.npos; at = end + 1) {
        std::string line = text.substr(at, end - at);
        size_t path = 0;
        for (int i = 0; i < 5; ++i) path = line.find(' ', path) + 1;
        if (path == 0 || facts_at(root.get(), line.substr(path)) != line.substr(0, path)) return line.substr(path);
    }
    return {};
}

void give_up_hot(int hot, const std::string& name, const std::string& why) {
    if (::renameat(hot, name.c_str(), hot, cat(gone_prefix, name).c_str()) != 0) return;
    write_text_at(hot, note_file, why);
}

std::string take_hot_note(const Store& store) {
    Fd hot = store.directory("hot");
    if (::faccessat(hot.get(), note_file, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return {};
    std::string out = printable(text_at(hot.get(), note_file, 4096), 256);
    ::unlinkat(hot.get(), note_file, 0);
    return out;
}

void refuse_hot(int hot, const std::string& boot, const std::string& why) {
    write_text_at(hot, refusal(boot), "");
    write_text_at(hot, note_file, why);
}

bool remove_hot(int hot, const std::string& name) {
    Fd folder = sys::try_open_at(hot, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!folder) return ::unlinkat(hot, name.c_str(), 0) == 0;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return false;
    std::string away = name.starts_with(gone_prefix) ? name : cat(gone_prefix, name);
    if (away != name && ::renameat(hot, name.c_str(), hot, away.c_str()) != 0) {
        // There is one of that name, of a removal that was cut short.
        sys::remove_tree(hot, away, away);
        if (::renameat(hot, name.c_str(), hot, away.c_str()) != 0) return false;
    }
    sys::remove_tree(hot, away, away);
    return true;
}

void remove_hot_of(const Store& store, const std::string& index) {
    Fd hot = store.directory("hot");
    for (std::string name : sys::list_directory(hot.get(), "hot"))
        if (name.starts_with(index + ".") || name.starts_with(cat(gone_prefix, index, ".")))
            remove_if_unused(hot.get(), name);
}

void sweep_hot(const Store& store, int64_t age) {
    Fd hot = store.directory("hot");
    std::string boot = boot_word();
    int64_t now = ::time(nullptr);
    for (const std::string& name : sys::list_directory(hot.get(), "hot")) {
        struct stat st {};
        if (!is_object(name, boot) || ::fstatat(hot.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        int64_t unused = now - st.st_mtime;
        bool old_boot = name.find(cat('.', boot, '.')) == name.npos;
        if (old_boot || name.starts_with(gone_prefix) || unused > age ||
            (name.ends_with(".part") && unused > hot_partial_age))
            remove_if_unused(hot.get(), name);
    }
}

uint64_t hot_disk_bytes(int hot) {
    uint64_t sum = 0;
    for (const std::string& name : sys::list_directory(hot, "hot")) sum += tree_bytes(hot, name);
    return sum;
}

}  // namespace berth::store
