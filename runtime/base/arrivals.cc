#include "runtime/base/arrivals.hh"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

using Clock = std::chrono::steady_clock;

constexpr char file_start[] = "berth-arrivals 1";
constexpr auto slice = std::chrono::milliseconds(50);

/// Of other processes too, so no futex of this process alone.
void futex_wait(uint32_t& word, uint32_t value, std::chrono::milliseconds limit) {
    timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = (limit.count() % 1000) * 1'000'000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(uint32_t& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

/// A number of 36 characters that each start of the machine has anew.
std::string boot_id() { return std::string(trimmed(sys::read_file("/proc/sys/kernel/random/boot_id"))); }

void add_one(uint32_t& word) { std::atomic_ref(word).fetch_add(1, std::memory_order_release); }

}  // namespace

struct Arrivals::Header {
    char start[32];
    char boot[48];
    char of[80];       ///< a digest's text
    uint32_t count;
    uint32_t wishes;   ///< grows with each piece that is asked for
    uint32_t changes;  ///< grows with each that is here, or failed
    char rest[84];
};

Arrivals::Arrivals(void* memory, size_t size, uint32_t count)
    : header_(static_cast<Header*>(memory)),
      states_(static_cast<uint8_t*>(memory) + sizeof(Header)),
      size_(size),
      count_(count) {}

Arrivals::~Arrivals() { ::munmap(header_, size_); }

std::shared_ptr<Arrivals> Arrivals::map(int fd, uint32_t count) {
    static_assert(sizeof(Header) == 256);
    size_t size = sizeof(Header) + count;
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) throw SysError("mapping the list of pieces of an image");
    return std::shared_ptr<Arrivals>(new Arrivals(memory, size, count));
}

std::shared_ptr<Arrivals> Arrivals::create(int fd, uint32_t count, const Digest& of) {
    Header header{};
    std::memcpy(header.start, file_start, sizeof file_start);
    std::string boot = boot_id(), name = of.text();
    std::memcpy(header.boot, boot.data(), std::min(boot.size(), sizeof header.boot));
    std::memcpy(header.of, name.data(), std::min(name.size(), sizeof header.of));
    header.count = count;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.resize(sizeof header + count, '\0');
    // Written rather than extended: a page that the disk has no room for would be a signal.
    sys::write_all(fd, bytes, "the list of pieces of an image");
    return map(fd, count);
}

std::shared_ptr<Arrivals> Arrivals::open(int fd, uint32_t count, const Digest& of) {
    if (sys::stat_of(fd, "the list of pieces of an image").st_size != static_cast<off_t>(sizeof(Header) + count))
        return nullptr;
    std::shared_ptr<Arrivals> out = map(fd, count);
    const Header& header = *out->header_;
    auto is = [](const auto& field, const std::string& text) {
        return text.size() < sizeof field && text == std::string(field, ::strnlen(field, sizeof field));
    };
    bool right = is(header.start, file_start) && is(header.boot, boot_id()) && is(header.of, of.text());
    return right && header.count == count ? out : nullptr;
}

bool Arrivals::are_here(Pieces pieces) const {
    for (uint32_t piece = pieces.first; piece < pieces.first + pieces.count; ++piece)
        if (piece >= count_ || !is_here(piece)) return false;
    return true;
}

uint32_t Arrivals::here() const {
    uint32_t out = 0;
    for (uint32_t piece = 0; piece < count_; ++piece) out += is_here(piece);
    return out;
}

void Arrivals::ask_for(uint32_t piece) {
    State now = state(piece);
    auto before = static_cast<uint8_t>(now);
    if (now != State::missing && now != State::failed) return;
    if (!at(piece).compare_exchange_strong(before, static_cast<uint8_t>(State::wanted))) return;
    add_one(header_->wishes);
    futex_wake(header_->wishes);
}

void Arrivals::ask(Pieces pieces) {
    for (uint32_t piece = pieces.first; piece < pieces.first + pieces.count; ++piece) ask_for(piece);
}

int Arrivals::wait(Pieces pieces, const std::function<bool()>& interrupted) {
    if (pieces.count > count_ || pieces.first > count_ - pieces.count) return -EIO;
    if (are_here(pieces)) return 0;
    // All at once, so that one request of a neighbourhood does.
    ask(pieces);
    for (uint32_t piece = pieces.first; piece < pieces.first + pieces.count; ++piece)
        if (int problem = wait_for(piece, interrupted)) return problem;
    return 0;
}

bool Arrivals::is_abandoned() const {
    pollfd entry{lifeline_, 0, 0};
    return lifeline_ >= 0 && ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLNVAL | POLLERR)) != 0;
}

int Arrivals::wait_for(uint32_t piece, const std::function<bool()>& interrupted) {
    auto since = Clock::now();
    for (uint32_t before = 0;;) {
        uint32_t changes = this->changes();
        if (std::exchange(before, changes) != changes) since = Clock::now();
        State now = state(piece);
        if (now == State::here) return 0;
        if (now == State::failed || Clock::now() - since > patience_) return -EIO;
        // What came last may have come before the end.
        if (is_abandoned()) return is_here(piece) ? 0 : -EIO;
        if (interrupted && interrupted()) return -EINTR;
        wait_for_change(changes, slice);
    }
}

uint32_t Arrivals::changes() const { return std::atomic_ref(header_->changes).load(std::memory_order_acquire); }

void Arrivals::wait_for_change(uint32_t seen, std::chrono::milliseconds limit) {
    futex_wait(header_->changes, seen, limit);
}

std::vector<uint32_t> Arrivals::wanted() const {
    std::vector<uint32_t> out;
    for (uint32_t piece = 0; piece < count_; ++piece)
        if (state(piece) == State::wanted) out.push_back(piece);
    return out;
}

void Arrivals::settle(uint32_t piece, State state) {
    at(piece).store(static_cast<uint8_t>(state), std::memory_order_release);
    add_one(header_->changes);
    futex_wake(header_->changes);
}

uint32_t Arrivals::wishes() const { return std::atomic_ref(header_->wishes).load(std::memory_order_acquire); }

void Arrivals::wait_for_wish(uint32_t seen, std::chrono::milliseconds limit) {
    if (wishes() == seen) futex_wait(header_->wishes, seen, limit);
}

}  // namespace berth
