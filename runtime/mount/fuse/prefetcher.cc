#include "runtime/mount/fuse/prefetcher.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/guess.hh"
#include "runtime/squash/read/list_places.hh"

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
constexpr unsigned most_seconds = 20, most_seconds_of_writing = 120;
constexpr int check_after_ms = 300;
/// A process that guesses waits so long, from its first read on, for what the start has read.
constexpr unsigned most_seconds_of_waiting = 120;
constexpr int descriptor_follows_ms = 1000;

/// Has the kernel bring all names of a directory, with their inodes.
void list_names(int directory) {
    std::unique_ptr<char[]> buffer(new char[32 << 10]);
    while (::syscall(SYS_getdents64, directory, buffer.get(), 32 << 10) > 0) continue;
}

class Reading {
  public:
    Reading(const squash::ListPlaces& places, int root, int hot) : places_(places), root_(root), hot_(hot) {}

    /// Opens the file unless it is open already. False when there is no such regular file.
    bool open(uint32_t inode) {
        if (inode == inode_) return file_ != nullptr;
        inode_ = inode;
        file_.reset();
        squash::ListPlaces::Place place = places_.place_of(inode);
        if (place.directory == 0 || !enter(place.directory)) return false;
        std::string name = places_.name_at(place);
        if (name.empty() || is_hot(place.directory, name)) return false;
        Fd file = sys::try_open_at(directory_.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        struct stat st {};
        if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
        size_ = static_cast<uint64_t>(st.st_size);
        file_ = std::make_shared<Fd>(std::move(file));
        return true;
    }

    /// Of the file that is open.
    std::string content(uint64_t offset, size_t size) const {
        std::string out(size, '\0');
        ssize_t got = ::pread(file_->get(), out.data(), size, static_cast<off_t>(offset));
        out.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
        return out;
    }

    void look_up(uint32_t directory, const std::string& name) {
        struct stat st {};
        char target[4096];
        // Whatever the index says, a name leads nowhere else.
        if (name == "." || name == ".." || name.find('/') != name.npos) return;
        if (enter(directory) && ::fstatat(directory_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode))
            (void)!::readlinkat(directory_.get(), name.c_str(), target, sizeof target);
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
    bool is_hot(uint32_t directory, const std::string& name) const {
        return hot_ >= 0 &&
               ::faccessat(hot_, cat(places_.path_of(directory), "/", name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }

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
    const squash::ListPlaces& places_;
    int root_, hot_;
    uint32_t inode_ = 0, entered_ = 0;
    Fd directory_;
    std::shared_ptr<Fd> file_;
    uint64_t size_ = 0;
    std::deque<UnderWay> under_way_;
    std::unordered_set<uint32_t> listed_;
};

/// Whether there is time and memory left to write.
class WritingLimit {
  public:
    explicit WritingLimit(const NodeMemory& node) : node_(node), left_(prefetch_budget(node.room())) {}
    bool allows(uint64_t bytes) {
        if (bytes > left_ || Clock::now() > until_) return false;
        left_ -= bytes;
        return ++asked_ % look_interval != 0 || node_.room().left >= short_of_room;
    }

  private:
    using Clock = std::chrono::steady_clock;
    const NodeMemory& node_;
    uint64_t left_;
    unsigned asked_ = 0;
    Clock::time_point until_ = Clock::now() + std::chrono::seconds(most_seconds_of_writing);
};

/// For a container that does read what is in the list.
void help(const squash::Index& index, const squash::PrefetchList& list, int root, const NodeMemory& node,
          const HotWork& hot) {
    Fd unpacked = hot.folder < 0 ? Fd() : sys::try_open_at(hot.folder, "root", O_PATH | O_DIRECTORY | O_NOFOLLOW);
    read_ahead(
        index, list, root, [&] { return node.room(); }, most_seconds, unpacked.get());
    WritingLimit limit(node);
    if (hot.write) hot.write(list, [&](uint64_t bytes) { return limit.allows(bytes); });
}

/// A packet to a process that guesses; of the name, only what there is.
struct Told {
    enum class Kind : uint32_t { read, missing, list } kind = Kind::read;
    uint32_t inode = 0;
    uint64_t offset = 0;
    char name[256] = "";
    static constexpr size_t head = 16;
};
static_assert(offsetof(Told, name) == Told::head);

/// The life of a process that guesses.
class Guessing {
  public:
    Guessing(const squash::Index& index, int root, int channel, const NodeMemory& node, const HotWork& hot)
        : channel_(channel),
          node_(node),
          hot_(hot),
          places_(index),
          reading_(places_, root, -1),
          left_(prefetch_budget(node.room())),
          guess_(index, places_, means()) {}

    void run() {
        bool waits = true, first = true;
        while (auto told = next(waits)) {
            bool is_told = told->kind != Told::Kind::read || told->inode != 0;
            if (std::exchange(first, false)) begun_ = Clock::now();
            if (told->kind == Told::Kind::list) return write();
            if (is_told && may_go_on()) saw(*told);
            waits = !is_told && (!may_go_on() || !guess_.step());
        }
    }

  private:
    using Clock = std::chrono::steady_clock;

    GuessMeans means() {
        return {.read = [this](uint32_t inode, uint64_t offset, uint64_t size) { read(inode, offset, size); },
                .list = [this](uint32_t directory) { reading_.list(directory); },
                .look_up = [this](uint32_t directory, const std::string& name) { reading_.look_up(directory, name); },
                .content =
                    [this](uint32_t inode, uint64_t offset, size_t size) {
                        return reading_.open(inode) ? reading_.content(offset, size) : std::string();
                    }};
    }

    void read(uint32_t inode, uint64_t offset, uint64_t size) {
        if (!reading_.open(inode)) return;
        for (uint64_t asked = 0; size > 0 && may_go_on(); offset += asked, size -= asked, left_ -= asked) {
            asked = reading_.ask(offset, std::min(size, left_));
            if (asked == 0) return;
        }
    }

    /// The next packet; without `waits` one that says nothing where there is none. Nothing at the end.
    std::optional<Told> next(bool waits) {
        pollfd more{channel_, POLLIN, 0};
        if (waits && ::poll(&more, 1, begun_ ? most_seconds_of_waiting * 1000 : -1) <= 0) return std::nullopt;
        Told out;
        ssize_t got = ::recv(channel_, &out, sizeof out - 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Told();
        return got >= static_cast<ssize_t>(Told::head) ? std::optional(out) : std::nullopt;
    }

    void saw(const Told& told) {
        if (told.kind == Told::Kind::missing)
            guess_.saw_missing(told.inode, told.name);
        else
            guess_.saw_read(told.inode, told.offset);
    }

    bool may_go_on() {
        if (++asked_ % look_interval == 0 && node_.room().left < short_of_room) left_ = 0;
        return left_ > 0 && (!begun_ || Clock::now() - *begun_ < std::chrono::seconds(most_seconds));
    }

    void write() const {
        auto received = receive_message(channel_, descriptor_follows_ms);
        if (!hot_.write || !received || received->descriptors.size() != 1) return;
        Fd file = std::move(received->descriptors[0]);
        ::lseek(file.get(), 0, SEEK_SET);
        WritingLimit limit(node_);
        hot_.write(squash::parse_prefetch_list(sys::read_all(file.get(), squash::prefetch_file_limit, "a list")),
                   [&](uint64_t bytes) { return limit.allows(bytes); });
    }

    int channel_;
    const NodeMemory& node_;
    const HotWork& hot_;
    squash::ListPlaces places_;
    Reading reading_;
    uint64_t left_;
    uint32_t asked_ = 0;
    std::optional<Clock::time_point> begun_;
    Guess guess_;
};

/// The life of a process that has a list.
void follow(const squash::Index& index, const std::string& list, int channel, int root, const NodeMemory& node,
            const HotWork& hot) {
    if (hot.check) {
        // Short programs do without.
        pollfd told{channel, POLLIN, 0};
        ::poll(&told, 1, check_after_ms);
        hot.check();
    }
    char follows = 0;
    if (::recv(channel, &follows, 1, 0) == 1 && follows == 'y')
        help(index, squash::parse_prefetch_list(list), root, node, hot);
}

}  // namespace

uint64_t prefetch_budget(const MemoryRoom& room) {
    uint64_t most = std::min(room.limit.value_or(UINT64_MAX), room.left) / 4;
    return std::min(most, squash::prefetch_bytes);
}

uint64_t read_ahead(const squash::Index& index, const squash::PrefetchList& list, int root,
                    const std::function<MemoryRoom()>& room, unsigned seconds, int hot) {
    using Clock = std::chrono::steady_clock;
    auto until = Clock::now() + std::chrono::seconds(seconds);
    uint64_t budget = prefetch_budget(room()), done = 0;
    uint32_t requests = 0;
    squash::ListPlaces places(index, list);
    Reading reading(places, root, hot);
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

IdleProcess start_prefetcher(const squash::Index& index, const squash::PrefetchBytes& list,
                             const std::function<void()>& confine, const HotWork& hot) {
    std::vector<int> kept = hot.descriptors;
    kept.push_back(index.descriptor());
    return start_idle_process(std::move(kept), confine, [&](int channel, int root, const NodeMemory& node) {
        if (list) return follow(index, *list, channel, root, node, hot);
        pollfd told{channel, POLLIN, 0};
        // Most programs never read so much that it has to know where all files are.
        if (::poll(&told, 1, -1) == 1) Guessing(index, root, channel, node, hot).run();
    });
}

void tell_prefetcher(int channel, bool follows) noexcept {
    (void)!::send(channel, follows ? "y" : "n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void tell_read(int channel, uint32_t inode, uint64_t offset) noexcept {
    Told told{Told::Kind::read, inode, offset};
    (void)!::send(channel, &told, Told::head, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void tell_missing(int channel, uint32_t directory, std::string_view name) noexcept {
    Told told{Told::Kind::missing, directory};
    name = name.substr(0, sizeof told.name - 1);
    std::memcpy(told.name, name.data(), name.size());
    (void)!::send(channel, &told, Told::head + name.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void tell_list(int channel, const squash::PrefetchList& list) noexcept try {
    Fd file(::memfd_create("list", MFD_CLOEXEC));
    if (!file) return;
    sys::write_all(file.get(), squash::format_prefetch_list(list), "a list");
    Told told{Told::Kind::list};
    if (::send(channel, &told, Told::head, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) send_message(channel, {}, {file.get()}, 0);
} catch (const std::exception&) {
    // It has gone, or the next start has the files written.
}

}  // namespace berth::mount
