#include "runtime/mount/fuse/prefetcher.hh"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

/// What the kernel reads ahead of a user's mount at a time.
constexpr uint64_t request_bytes = 128 << 10;
/// Requests under way: enough that the server need not sleep between two of them, and few enough that what a program
/// asks for meanwhile is soon answered.
constexpr size_t most_under_way = 8;
/// Files of one directory that make it worthwhile to read all of its names at once.
constexpr uint32_t worth_listing = 4;
/// How often time and memory are looked at, in requests.
constexpr uint32_t look_interval = 64;
constexpr uint64_t short_of_room = 64ULL << 20;
constexpr unsigned most_seconds = 20;
constexpr size_t path_limit = 4000;
constexpr size_t node_file_limit = 64 << 10;

/// Where the inodes of a list are in the tree, and of which directories several are wanted.
class Places {
  public:
    Places(const squash::Index& index, const squash::PrefetchList& list)
        : index_(index), parents_(index.inode_count() + 1) {
        for (const squash::PrefetchExtent& extent : list.extents) wanted_.emplace(extent.inode, Place{});
        for (const squash::MissingName& missing : list.missing) missing_[missing.directory].push_back(missing.name);
        std::vector<uint32_t> directories{1};
        for (size_t i = 0; i < directories.size(); ++i) look_into(directories[i], directories);
    }

    struct Place {
        uint32_t directory = 0;  ///< 0: no such file
        uint32_t position = 0;
    };
    Place place_of(uint32_t inode) const {
        auto found = wanted_.find(inode);
        return found == wanted_.end() ? Place{} : found->second;
    }
    uint32_t wanted_in(uint32_t directory) const {
        auto found = counts_.find(directory);
        return found == counts_.end() ? 0 : found->second;
    }
    /// Whether the number is that of a directory of the tree.
    bool is_directory(uint32_t inode) const {
        return inode == 1 || (inode < parents_.size() && parents_[inode].directory != 0);
    }
    /// Names that are looked for in vain.
    const std::vector<std::string>& missing_in(uint32_t directory) const {
        static const std::vector<std::string> none;
        auto found = missing_.find(directory);
        return found == missing_.end() ? none : found->second;
    }
    /// From the root, without a slash at its start; "." for the root itself, empty for one that is too long.
    std::string path_of(uint32_t directory) const {
        std::string out;
        for (; directory != 1; directory = parents_[directory].directory) {
            auto entry = index_.entry(parents_[directory].directory, parents_[directory].position);
            if (!entry || out.size() + entry->name.size() > path_limit) return {};
            out = out.empty() ? std::string(entry->name) : cat(entry->name, "/", out);
        }
        return out.empty() ? "." : out;
    }

  private:
    void look_into(uint32_t directory, std::vector<uint32_t>& directories) {
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
            } else if (auto found = wanted_.find(entry->inode); found != wanted_.end() && S_ISREG(entry->mode)) {
                if (found->second.directory == 0) ++counts_[directory];
                found->second = here;
            }
        }
    }

    const squash::Index& index_;
    std::vector<Place> parents_;  ///< of directories, by number
    std::unordered_map<uint32_t, Place> wanted_;
    std::unordered_map<uint32_t, uint32_t> counts_;
    std::unordered_map<uint32_t, std::vector<std::string>> missing_;
};

/// Has the kernel bring all names of a directory, with their inodes.
void list_names(int directory) {
    std::unique_ptr<char[]> buffer(new char[32 << 10]);
    while (::syscall(SYS_getdents64, directory, buffer.get(), 32 << 10) > 0) continue;
}

class Reading {
  public:
    Reading(const squash::Index& index, const Places& places, int root) : index_(index), places_(places), root_(root) {}

    /// Opens the file unless it is open already. False when there is no such regular file.
    bool open(uint32_t inode) {
        if (inode == inode_) return file_ != nullptr;
        inode_ = inode;
        file_.reset();
        Places::Place place = places_.place_of(inode);
        if (place.directory == 0 || !enter(place.directory)) return false;
        auto entry = index_.entry(place.directory, place.position);
        if (!entry) return false;
        Fd file = sys::try_open_at(directory_.get(), std::string(entry->name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        struct stat st {};
        if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
        size_ = static_cast<uint64_t>(st.st_size);
        file_ = std::make_shared<Fd>(std::move(file));
        return true;
    }

    /// Has the kernel bring the names of a directory.
    void list(uint32_t directory) {
        if (places_.is_directory(directory) && enter(directory)) list_entered();
    }

    /// Asks for what the file, which is open, has of these bytes, at most `request_bytes`; returns how many.
    uint64_t ask(uint64_t offset, uint64_t size) {
        if (offset >= size_) return 0;
        size = std::min({size, size_ - offset, request_bytes});
        ::readahead(file_->get(), static_cast<off64_t>(offset), size);
        under_way_.push_back({file_, offset + size - 1});
        // The read of a byte ends with the request that brings it.
        char byte = 0;
        if (under_way_.size() > most_under_way) {
            auto& [file, last] = under_way_.front();
            (void)!::pread(file->get(), &byte, 1, static_cast<off_t>(last));
            under_way_.pop_front();
        }
        return size;
    }

  private:
    bool enter(uint32_t directory) {
        if (directory == entered_) return static_cast<bool>(directory_);
        entered_ = directory;
        directory_.reset();
        std::string path = places_.path_of(directory);
        if (path.empty()) return false;
        try {
            directory_ = sys::open_beneath_here(root_, path, O_RDONLY | O_DIRECTORY);
        } catch (const Error&) {
            return false;
        }
        if (places_.wanted_in(directory) >= worth_listing) list_entered();
        return true;
    }

    /// Names that are there, and names that are not.
    void list_entered() {
        if (!listed_.insert(entered_).second) return;
        list_names(directory_.get());
        struct stat st {};
        for (const std::string& name : places_.missing_in(entered_))
            ::fstatat(directory_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW);
    }

    struct UnderWay {
        std::shared_ptr<Fd> file;
        uint64_t last;
    };
    const squash::Index& index_;
    const Places& places_;
    int root_;
    uint32_t inode_ = 0, entered_ = 0;
    Fd directory_;
    std::shared_ptr<Fd> file_;
    uint64_t size_ = 0;
    std::deque<UnderWay> under_way_;
    std::unordered_set<uint32_t> listed_;
};

/// Nobody waits for this process, and others have the CPUs before it. Not SCHED_IDLE: a process that is killed has to
/// run once more to end, for which the container's end waits.
void take_the_last_place() {
    sched_param none{};
    ::sched_setscheduler(0, SCHED_BATCH, &none);
    ::setpriority(PRIO_PROCESS, 0, 19);
    constexpr int idle_class = 3 << 13;
    ::syscall(SYS_ioprio_set, 1, 0, idle_class);
    if (Fd score = sys::try_open_at(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY))
        (void)!::write(score.get(), "1000", 4);
    sigset_t all;
    sigemptyset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

/// Reads files of the node's /proc and /sys/fs/cgroup, which are opened while the root is the node's.
class NodeFiles {
  public:
    NodeFiles()
        : proc_(sys::try_open_at(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY)),
          groups_(sys::try_open_at(AT_FDCWD, "/sys/fs/cgroup", O_PATH | O_DIRECTORY)),
          membership_(read("/proc/self/cgroup").value_or("")) {}
    std::vector<int> descriptors() const { return {proc_.get(), groups_.get()}; }
    MemoryRoom room() const {
        return memory_room(membership_, [this](const std::string& path) { return read(path); });
    }

  private:
    std::optional<std::string> read(const std::string& path) const {
        constexpr std::string_view proc = "/proc/", groups = "/sys/fs/cgroup/";
        bool of_groups = path.starts_with(groups);
        int folder = of_groups ? groups_.get() : proc_.get();
        if (folder < 0) return std::nullopt;
        Fd file = sys::try_open_at(folder, path.substr(of_groups ? groups.size() : proc.size()), O_RDONLY);
        try {
            if (file) return sys::read_all(file.get(), node_file_limit, path);
        } catch (const Error&) {
            // What cannot be read limits nothing.
        }
        return std::nullopt;
    }

    Fd proc_, groups_;
    std::string membership_;
};

/// The life of the process. Never returns.
[[noreturn]] void be_prefetcher(const squash::Index& index, const std::string& list, int channel,
                                const std::function<void()>& confine, pid_t parent) {
    try {
        ::prctl(PR_SET_NAME, "berth-ahead");
        ::setsid();
        take_the_last_place();
        NodeFiles node;
        std::vector<int> kept = node.descriptors();
        kept.insert(kept.end(), {channel, index.descriptor()});
        sys::point_at_null({0, 1, 2});
        sys::close_descriptors_except(kept);
        confine();
        // Only after the change of credentials, which takes it back.
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(0);
        auto received = receive_message(channel);
        char follows = 0;
        if (received && received->descriptors.size() == 1 && ::recv(channel, &follows, 1, 0) == 1 && follows == 'y')
            read_ahead(index, squash::parse_prefetch_list(list), received->descriptors[0].get(),
                       [&] { return node.room(); }, most_seconds);
    } catch (const std::exception&) {
        // Nobody misses what it would have read.
    }
    ::_exit(0);
}

}  // namespace

uint64_t prefetch_budget(const MemoryRoom& room) {
    uint64_t most = std::min(room.limit.value_or(UINT64_MAX), room.left) / 4;
    return std::min(most, squash::prefetch_bytes);
}

uint64_t read_ahead(const squash::Index& index, const squash::PrefetchList& list, int root,
                    const std::function<MemoryRoom()>& room, unsigned seconds) {
    using Clock = std::chrono::steady_clock;
    auto until = Clock::now() + std::chrono::seconds(seconds);
    uint64_t budget = prefetch_budget(room()), done = 0;
    uint32_t requests = 0;
    Places places(index, list);
    Reading reading(index, places, root);
    for (const squash::PrefetchExtent& extent : list.extents) {
        if (extent.count == 0) reading.list(extent.inode);
        if (extent.count == 0 ? Clock::now() <= until : !reading.open(extent.inode)) continue;
        uint64_t offset = extent.first * squash::prefetch_page, end = offset + extent.count * squash::prefetch_page;
        for (uint64_t size = 0; offset < end; offset += size) {
            if (++requests % look_interval == 0 && (Clock::now() > until || room().left < short_of_room)) return done;
            size = reading.ask(offset, std::min(end - offset, budget - done));
            done += size;
            if (size == 0) break;
        }
        if (done >= budget || Clock::now() > until) break;
    }
    return done;
}

Prefetcher start_prefetcher(const squash::Index& index, const squash::PrefetchBytes& list,
                            const std::function<void()>& confine) {
    Prefetcher out;
    auto&& [ours, its] = make_channel();
    pid_t self = ::getpid();
    // No signal at its end: whoever waits for any child waits for commands.
    pid_t child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
    if (child < 0) return out;
    if (child == 0) {
        ours.reset();
        be_prefetcher(index, *list, its.get(), confine, self);
    }
    out.process = Pid(child);
    out.channel = std::move(ours);
    return out;
}

void show_mount(Prefetcher& prefetcher, int root) noexcept {
    try {
        if (prefetcher.process) send_message(prefetcher.channel.get(), {}, {root}, 0);
    } catch (const std::exception&) {
        // It has gone.
    }
}

void tell_prefetcher(int channel, bool follows) noexcept {
    (void)!::send(channel, follows ? "y" : "n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace berth::mount
