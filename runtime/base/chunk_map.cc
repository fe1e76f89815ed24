#include "runtime/base/chunk_map.hh"

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

struct ChunkMap::Header {
    char start[32];
    char boot[48];
    char of[80];       ///< a digest's text
    uint32_t count;
    uint32_t wishes;   ///< grows with each chunk that is asked for
    uint32_t changes;  ///< grows with each that is here, or failed
    char rest[84];
};

ChunkMap::ChunkMap(void* memory, size_t size, uint32_t count)
    : header_(static_cast<Header*>(memory)),
      states_(static_cast<uint8_t*>(memory) + sizeof(Header)),
      size_(size),
      count_(count) {}

ChunkMap::~ChunkMap() { ::munmap(header_, size_); }

std::shared_ptr<ChunkMap> ChunkMap::map(int fd, uint32_t count) {
    static_assert(sizeof(Header) == 256);
    size_t size = sizeof(Header) + count;
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) throw SysError("mapping the list of chunks of an image");
    return std::shared_ptr<ChunkMap>(new ChunkMap(memory, size, count));
}

std::shared_ptr<ChunkMap> ChunkMap::create(int fd, uint32_t count, const Digest& of) {
    Header header{};
    std::memcpy(header.start, file_start, sizeof file_start);
    std::string boot = boot_id(), name = of.text();
    std::memcpy(header.boot, boot.data(), std::min(boot.size(), sizeof header.boot));
    std::memcpy(header.of, name.data(), std::min(name.size(), sizeof header.of));
    header.count = count;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.resize(sizeof header + count, '\0');
    // Written rather than extended: a page that the disk has no room for would be a signal.
    sys::write_all(fd, bytes, "the list of chunks of an image");
    return map(fd, count);
}

std::shared_ptr<ChunkMap> ChunkMap::open(int fd, uint32_t count, const Digest& of) {
    if (sys::stat_of(fd, "the list of chunks of an image").st_size != static_cast<off_t>(sizeof(Header) + count))
        return nullptr;
    std::shared_ptr<ChunkMap> out = map(fd, count);
    const Header& header = *out->header_;
    auto is = [](const auto& field, const std::string& text) {
        return text.size() < sizeof field && text == std::string(field, ::strnlen(field, sizeof field));
    };
    bool right = is(header.start, file_start) && is(header.boot, boot_id()) && is(header.of, of.text());
    return right && header.count == count ? out : nullptr;
}

bool ChunkMap::are_here(Chunks chunks) const {
    for (uint32_t chunk = chunks.first; chunk < chunks.first + chunks.count; ++chunk)
        if (chunk >= count_ || !is_here(chunk)) return false;
    return true;
}

uint32_t ChunkMap::here() const {
    uint32_t out = 0;
    for (uint32_t chunk = 0; chunk < count_; ++chunk) out += is_here(chunk);
    return out;
}

void ChunkMap::ask_for(uint32_t chunk) {
    State now = state(chunk);
    auto before = static_cast<uint8_t>(now);
    if (now != State::missing && now != State::failed) return;
    if (!at(chunk).compare_exchange_strong(before, static_cast<uint8_t>(State::wanted))) return;
    add_one(header_->wishes);
    futex_wake(header_->wishes);
}

void ChunkMap::ask(Chunks chunks) {
    for (uint32_t chunk = chunks.first; chunk < chunks.first + chunks.count; ++chunk) ask_for(chunk);
}

int ChunkMap::wait(Chunks chunks, const std::function<bool()>& interrupted) {
    if (chunks.count > count_ || chunks.first > count_ - chunks.count) return -EIO;
    if (are_here(chunks)) return 0;
    // All at once, so that one request of a neighbourhood does.
    ask(chunks);
    for (uint32_t chunk = chunks.first; chunk < chunks.first + chunks.count; ++chunk)
        if (int problem = wait_for(chunk, interrupted)) return problem;
    return 0;
}

bool ChunkMap::is_abandoned() const {
    pollfd entry{lifeline_, 0, 0};
    return lifeline_ >= 0 && ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLNVAL | POLLERR)) != 0;
}

int ChunkMap::wait_for(uint32_t chunk, const std::function<bool()>& interrupted) {
    auto since = Clock::now();
    for (uint32_t before = 0;;) {
        uint32_t changes = this->changes();
        if (std::exchange(before, changes) != changes) since = Clock::now();
        State now = state(chunk);
        if (now == State::here) return 0;
        if (now == State::failed || Clock::now() - since > patience_) return -EIO;
        // What came last may have come before the end.
        if (is_abandoned()) return is_here(chunk) ? 0 : -EIO;
        if (interrupted && interrupted()) return -EINTR;
        wait_for_change(changes, slice);
    }
}

uint32_t ChunkMap::changes() const { return std::atomic_ref(header_->changes).load(std::memory_order_acquire); }

void ChunkMap::wait_for_change(uint32_t seen, std::chrono::milliseconds limit) {
    futex_wait(header_->changes, seen, limit);
}

std::vector<uint32_t> ChunkMap::wanted() const {
    std::vector<uint32_t> out;
    for (uint32_t chunk = 0; chunk < count_; ++chunk)
        if (state(chunk) == State::wanted) out.push_back(chunk);
    return out;
}

void ChunkMap::settle(uint32_t chunk, State state) {
    at(chunk).store(static_cast<uint8_t>(state), std::memory_order_release);
    add_one(header_->changes);
    futex_wake(header_->changes);
}

uint32_t ChunkMap::wishes() const { return std::atomic_ref(header_->wishes).load(std::memory_order_acquire); }

void ChunkMap::wait_for_wish(uint32_t seen, std::chrono::milliseconds limit) {
    if (wishes() == seen) futex_wait(header_->wishes, seen, limit);
}

}  // namespace berth
