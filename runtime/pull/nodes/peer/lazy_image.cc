#include "runtime/pull/nodes/peer/lazy_image.hh"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/nodes/protocol/request_path.hh"

namespace berth::pull::nodes {

namespace {

using Clock = std::chrono::steady_clock;

/// Of a header; what libmicrohttpd has for all of a request is more.
constexpr size_t here_word_limit = 32 << 10;
constexpr uint32_t part_limit = 256 << 10;  ///< bytes that are sent at once of a chunk that is on its way
/// Chunks of which a receiver has parts at most, from all of its neighbours, and from one of them.
constexpr size_t parts_limit = 32, neighbour_parts_limit = 8;
/// Between two looks: what comes meanwhile goes together.
constexpr auto between_looks = std::chrono::milliseconds(20);

bool has_bit(std::string_view bits, uint32_t number) {
    return number / 8 < bits.size() && (static_cast<unsigned char>(bits[number / 8]) >> number % 8 & 1) != 0;
}

void set_bit(std::string& bits, uint32_t number) {
    if (bits.size() <= number / 8) bits.resize(number / 8 + 1);
    bits[number / 8] = static_cast<char>(bits[number / 8] | 1 << number % 8);
}

}  // namespace

/// An answer to who waits for chunks: they are asked for as somebody of this node would, and so come before what nobody
/// waits for.
class LazyImage::Asked : public ChunkStream {
  public:
    Asked(const LazyImage& image, ChunkMap::Chunks chunks) : image_(image), chunks_(chunks) {}

  protected:
    ChunkHead next() override;
    size_t read(const ChunkHead& head, uint32_t done, char* out, size_t size) override {
        return image_.read(head.index, done, out, size);
    }

  private:
    const LazyImage& image_;
    ChunkMap::Chunks chunks_;
    uint32_t sent_ = 0;
};

/// An answer to a node that takes all that it has from this one.
class LazyImage::All : public ChunkStream {
  public:
    All(const LazyImage& image, std::optional<unsigned> node, std::string here)
        : image_(image), node_(node), here_(std::move(here)) {}

  protected:
    ChunkHead next() override;
    size_t read(const ChunkHead& head, uint32_t done, char* out, size_t size) override {
        if (part_.empty()) return image_.read(head.index, head.offset + done, out, size);
        return part_.copy(out, size, done);
    }

  private:
    /// A chunk to send.
    struct Left {
        uint32_t chunk = 0;
        bool is_in_profile = false;
        uint32_t sent = 0;       ///< bytes of it
        uint32_t beginning = 0;  ///< see PartialChunks
    };
    std::optional<ChunkHead> next_whole(bool of_profile);
    std::optional<ChunkHead> next_part(bool of_profile);
    bool find_all();

    const LazyImage& image_;
    std::optional<unsigned> node_;  ///< who asks
    std::string here_;              ///< what it had then, and has been sent
    std::shared_ptr<const ChunkOwners> known_;  ///< by which `left_` has all
    size_t parts_limit_ = 1;        ///< chunks of which a part has been sent, at most
    std::vector<Left> left_;        ///< to send, in the order of their numbers
    std::string part_;              ///< the bytes behind the head; empty: they are in the file
};

std::string word_of(const ChunkMap& map) {
    std::string bits((map.count() + 7) / 8, '\0');
    for (uint32_t chunk = 0; chunk < map.count(); ++chunk)
        if (map.is_here(chunk)) set_bit(bits, chunk);
    std::string out = oci::encode_base64(bits);
    return out.size() <= here_word_limit ? out : "";
}

LazyImage::LazyImage(std::shared_ptr<const store::Partial> partial, const Digest& manifest)
    : partial_(std::move(partial)), name_(manifest.hex()) {
    for (const store::PartialLayer& layer : partial_->layers) ends_.push_back(layer.first + layer.chunks());
}

void LazyImage::set_owners(std::shared_ptr<const ChunkOwners> owners, std::optional<unsigned> own) {
    std::lock_guard lock(mutex_);
    owners_ = std::move(owners);
    own_ = own;
}

std::string LazyImage::path(ChunkMap::Chunks chunks) const {
    return text_of(ImagePath{.manifest = name_, .chunks = chunks});
}

std::string LazyImage::path_of_all(std::optional<unsigned> node) const {
    return text_of(ImagePath{.manifest = name_, .is_all = true, .node = node});
}

std::unique_ptr<ChunkStream> LazyImage::answer(std::string_view path, std::string_view here) const {
    auto asked = parse_image_path(path, partial_->map->count());
    if (!asked || asked->manifest != name_) return nullptr;
    if (!asked->is_all) return std::make_unique<Asked>(*this, asked->chunks);
    auto bits = oci::decode_base64(here);
    return bits ? std::make_unique<All>(*this, asked->node, std::move(*bits)) : nullptr;
}

bool LazyImage::is_passed_on(uint32_t chunk) const {
    std::lock_guard lock(mutex_);
    return owners_ && own_ && owners_->is_passed_on(chunk, *own_);
}

LazyImage::Place LazyImage::place(uint32_t chunk) const {
    const store::PartialLayer& layer =
        partial_->layers[static_cast<size_t>(std::ranges::upper_bound(ends_, chunk) - ends_.begin())];
    return {&layer, uint64_t{chunk - layer.first} * ChunkMap::chunk_size};
}

uint32_t LazyImage::size(uint32_t chunk) const {
    Place where = place(chunk);
    return static_cast<uint32_t>(std::min(ChunkMap::chunk_size, where.layer->size - where.at));
}

size_t LazyImage::read(uint32_t chunk, uint32_t offset, char* out, size_t size) const {
    Place where = place(chunk);
    for (;;) {
        ssize_t got = ::pread(where.layer->file.get(), out, size, static_cast<off_t>(where.at + offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            throw SysError(cat("reading layer ", where.layer->diff_id, " for another node"), got < 0 ? errno : EIO);
        return static_cast<size_t>(got);
    }
}

ChunkHead LazyImage::Asked::next() {
    if (sent_ == chunks_.count) return {ChunkHead::complete};
    ChunkMap& map = *image_.partial_->map;
    auto end = Clock::now() + word_time;
    // All at once, so that one request does.
    if (sent_ == 0) map.ask(chunks_);
    uint32_t chunk = chunks_.first + sent_;
    int problem = map.wait({chunk, 1}, [&] { return Clock::now() >= end; });
    if (problem == -EINTR) return {ChunkHead::waiting};
    if (problem != 0) return {ChunkHead::gone};
    ++sent_;
    return {chunk, image_.size(chunk)};
}

bool LazyImage::All::find_all() {
    std::unique_lock lock(image_.mutex_);
    auto owners = image_.owners_;
    auto own = image_.own_;
    lock.unlock();
    if (owners == known_) return known_ != nullptr;
    known_ = owners;
    std::vector<Left> before = std::exchange(left_, {});
    for (uint32_t chunk = 0; own && chunk < image_.partial_->map->count(); ++chunk) {
        auto found = std::ranges::lower_bound(before, chunk, {}, &Left::chunk);
        if (found != before.end() && found->chunk == chunk) left_.push_back(*found);
        else if (owners->source(chunk, node_) == *own && !has_bit(here_, chunk))
            left_.push_back({chunk, owners->is_in_profile(chunk)});
    }
    size_t neighbours = std::max<size_t>(owners->sources(node_).size(), 1);
    parts_limit_ = std::clamp<size_t>(parts_limit / neighbours, 1, neighbour_parts_limit);
    return true;
}

/// What is left of a chunk that is here.
std::optional<ChunkHead> LazyImage::All::next_whole(bool of_profile) {
    const ChunkMap& map = *image_.partial_->map;
    auto found = std::ranges::find_if(left_, [&](const Left& left) {
        return left.is_in_profile == of_profile && map.is_here(left.chunk);
    });
    if (found == left_.end()) return std::nullopt;
    Left left = *found;
    left_.erase(found);
    set_bit(here_, left.chunk);
    uint32_t from = left.beginning == image_.coming_.beginning(left.chunk) ? left.sent : 0;
    part_.clear();
    return ChunkHead{left.chunk, image_.size(left.chunk) - from, from};
}

/// Of a chunk that is on its way, what has come and was not sent, but for its last bytes: whoever has those may check
/// it, and would find this node wrong.
std::optional<ChunkHead> LazyImage::All::next_part(bool of_profile) {
    constexpr uint32_t unit = PartialChunks::unit;
    const PartialChunks& coming = image_.coming_;
    auto has_parts = [](const Left& left) { return left.sent > 0; };
    bool is_full = static_cast<size_t>(std::ranges::count_if(left_, has_parts)) >= parts_limit_;
    for (const PartialChunks::Chunk& chunk : coming.all()) {
        auto left = std::ranges::lower_bound(left_, chunk.chunk, {}, &Left::chunk);
        if (left == left_.end() || left->chunk != chunk.chunk || left->is_in_profile != of_profile) continue;
        if (left->sent == 0 && is_full) continue;
        uint32_t beginning = coming.beginning(chunk.chunk);
        if (left->beginning != beginning) left->sent = 0, left->beginning = beginning;
        uint32_t behind = std::min(chunk.size, image_.size(chunk.chunk) - 1) / unit * unit;
        if (behind <= left->sent) continue;
        part_ = coming.bytes(chunk.chunk, beginning, left->sent, std::min(behind - left->sent, part_limit));
        if (part_.empty()) continue;
        ChunkHead out{chunk.chunk, static_cast<uint32_t>(part_.size()), left->sent};
        left->sent += out.size;
        return out;
    }
    return std::nullopt;
}

/// Whatever of it is here or comes, what starts read first.
ChunkHead LazyImage::All::next() {
    const PartialChunks& coming = image_.coming_;
    for (auto end = Clock::now() + word_time;;) {
        uint32_t news = coming.news();
        auto looked = Clock::now();
        if (find_all()) {
            if (left_.empty()) return {ChunkHead::complete};
            for (bool of_profile : {true, false}) {
                if (auto whole = next_whole(of_profile)) return *whole;
                if (auto part = next_part(of_profile)) return *part;
            }
        }
        auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0) return {ChunkHead::waiting};
        coming.wait_for_news(news, left);
        std::this_thread::sleep_until(looked + between_looks);
    }
}

}  // namespace berth::pull::nodes
