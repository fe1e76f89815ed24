#include "runtime/store/turn.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/scratch.hh"

namespace berth::store {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t text_limit = 512;

milliseconds written_at(const struct stat& st) {
    return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(st.st_mtim.tv_sec) +
                                                    std::chrono::nanoseconds(st.st_mtim.tv_nsec));
}

/// Writes the whole text to where it is kept, so that the server takes the time of the file. False: it cannot be.
bool write_text(int fd, const std::string& text) {
    return ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
}

struct TurnFile {
    std::string text;  ///< HOST.PID.RANDOM of its holder
    milliseconds written{};
};

/// Nothing when it is not there. Opened anew, a file of NFS is as the server has it.
std::optional<TurnFile> look(int folder, const std::string& name) {
    try {
        Fd file = sys::open_if_exists(folder, name, O_RDONLY | O_NOFOLLOW);
        if (!file) return {};
        return TurnFile{sys::read_all(file.get(), text_limit, "a turn"), written_at(sys::stat_of(file.get(), name))};
    } catch (const SysError& problem) {
        // It went in between, and another came.
        if (problem.number() == ESTALE) return {};
        throw;
    }
}

/// A file beside the turn's, which has the server's time. Throws SysError when it cannot be written.
struct Written {
    Written(int folder, const std::string& text) : folder_(folder), name(cat(".", text)) {
        file = sys::try_open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (file && write_text(file.get(), text)) return;
        int number = errno;
        if (file) ::unlinkat(folder, name.c_str(), 0);
        throw SysError("writing a turn", number);
    }
    /// One that was given another name has none here.
    ~Written() {
        if (!name.empty()) ::unlinkat(folder_, name.c_str(), 0);
    }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;

    int folder_;
    std::string name;
    Fd file;
};

}  // namespace

TurnState state_of_turn(milliseconds unchanged, std::optional<milliseconds> age, const TurnTimes& times) {
    // Twice: the holder's write and this look are not at the same moments.
    if (unchanged < 2 * times.renewed) return TurnState::held;
    if (!age) return TurnState::unclear;
    return *age > times.lost ? TurnState::lost : TurnState::held;
}

class HostTurn {
  public:
    HostTurn(Fd folder, std::string name, std::string text, Fd file, milliseconds renewed)
        : folder_(std::move(folder)),
          name_(std::move(name)),
          text_(std::move(text)),
          file_(std::move(file)),
          thread_([this, renewed] { renew(renewed); }) {}
    ~HostTurn() {
        {
            std::lock_guard held(mutex_);
            ends_ = true;
        }
        wakes_.notify_one();
        thread_.join();
        try {
            // Another host may have thought this one dead.
            auto there = look(folder_.get(), name_);
            if (there && there->text == text_) ::unlinkat(folder_.get(), name_.c_str(), 0);
        } catch (const SysError&) {
            // Those who wait find it old.
        }
    }
    HostTurn(const HostTurn&) = delete;
    HostTurn& operator=(const HostTurn&) = delete;

  private:
    void renew(milliseconds every) {
        std::unique_lock held(mutex_);
        while (!wakes_.wait_for(held, every, [this] { return ends_; }))
            if (!write_text(file_.get(), text_)) return;
    }

    Fd folder_;  ///< locks/
    std::string name_;
    std::string text_;
    Fd file_;
    std::mutex mutex_;
    std::condition_variable wakes_;
    bool ends_ = false;
    std::thread thread_;
};

Turn::Turn() = default;
Turn::Turn(Lock lock, std::unique_ptr<HostTurn> file) : lock_(std::move(lock)), file_(std::move(file)) {}
Turn::Turn(Turn&&) noexcept = default;
Turn::~Turn() = default;

struct TurnQueue::Seen {
    std::string text;
    milliseconds written{};
    Clock::time_point since;
};

TurnQueue::TurnQueue(const Store& store, const Digest& key, bool among_hosts, const TurnTimes& times)
    : store_(store), key_(key), among_hosts_(among_hosts), times_(times) {}
TurnQueue::~TurnQueue() = default;

milliseconds TurnQueue::pause() const { return among_hosts_ ? times_.looked : milliseconds(50); }

/// Nothing while another host has the turn.
std::unique_ptr<HostTurn> TurnQueue::try_take_file() {
    Fd folder = store_.directory("locks");
    std::string name = key_.hex() + ".turn", text = scratch_name();
    auto held_from_now = [&](Fd file) {
        return std::make_unique<HostTurn>(std::move(folder), name, text, std::move(file), times_.renewed);
    };
    auto there = look(folder.get(), name);
    if (!there) {
        Fd file = sys::try_open_at(folder.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (!file && errno == EEXIST) return nullptr;
        if (!file) throw SysError("making a turn");
        if (!write_text(file.get(), text)) {
            int number = errno;
            ::unlinkat(folder.get(), name.c_str(), 0);
            throw SysError("writing a turn", number);
        }
        return held_from_now(std::move(file));
    }
    auto now = Clock::now();
    if (!seen_ || seen_->text != there->text || seen_->written != there->written)
        seen_ = std::make_unique<Seen>(Seen{there->text, there->written, now});
    auto unchanged = std::chrono::duration_cast<milliseconds>(now - seen_->since);
    if (state_of_turn(unchanged, {}, times_) == TurnState::held) return nullptr;
    Written own(folder.get(), text);
    auto age = written_at(sys::stat_of(own.file.get(), "a turn")) - there->written;
    if (state_of_turn(unchanged, age, times_) != TurnState::lost) return nullptr;
    if (::renameat(folder.get(), own.name.c_str(), folder.get(), name.c_str()) != 0) throw SysError("taking a turn");
    own.name.clear();
    // Another one may have found it lost as well, and the last to take it has it.
    std::this_thread::sleep_for(times_.settled);
    auto after = look(folder.get(), name);
    if (!after || after->text != text) return nullptr;
    return held_from_now(std::move(own.file));
}

Turn TurnQueue::try_take() {
    Lock lock = store_.try_lock(key_);
    if (!lock || !among_hosts_) return Turn(std::move(lock));
    std::unique_ptr<HostTurn> file;
    try {
        file = try_take_file();
        if (!file) return {};
        // A name that was not there a moment ago is not asked for again until its folder is.
        for (const char* name : {"layers", "images", "lists"}) [[maybe_unused]]
            Fd seen_anew = store_.directory(name);
    } catch (const SysError&) {
        // A full disk, say: whoever needs to write will say so better.
    }
    return Turn(std::move(lock), std::move(file));
}

Turn TurnQueue::take() {
    if (!among_hosts_) return Turn(store_.lock(key_));
    for (;;) {
        if (Turn turn = try_take()) return turn;
        std::this_thread::sleep_for(pause());
    }
}

std::string TurnQueue::holder() const {
    std::string known = store_.lock_owner(key_);
    if (!among_hosts_) return known;
    try {
        auto there = look(store_.directory("locks").get(), key_.hex() + ".turn");
        return there ? maker_of(there->text) : known;
    } catch (const SysError&) {
        return known;
    }
}

}  // namespace berth::store
