#include "runtime/pull/share/coming_image.hh"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/share/peer_request.hh"
#include "runtime/pull/share/request_path.hh"

namespace berth::pull::share {

namespace {

using Clock = std::chrono::steady_clock;

/// Of a header; what libmicrohttpd has for all of a request is more.
constexpr size_t here_word_limit = 32 << 10;
constexpr uint32_t part_limit = 256 << 10;  ///< bytes that are sent at once of a piece that is on its way
/// Pieces of which a receiver has parts at most, from all of its neighbours, and from one of them.
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

std::string word_of(const Arrivals& arrivals) {
    std::string bits((arrivals.count() + 7) / 8, '\0');
    for (uint32_t piece = 0; piece < arrivals.count(); ++piece)
        if (arrivals.is_here(piece)) set_bit(bits, piece);
    std::string out = oci::encode_base64(bits);
    return out.size() <= here_word_limit ? out : "";
}

ComingImage::ComingImage(std::shared_ptr<const store::Partial> partial, const Digest& manifest)
    : partial_(std::move(partial)), name_(manifest.hex()) {
    for (const store::PartialLayer& layer : partial_->layers) ends_.push_back(layer.first + layer.pieces());
}

void ComingImage::set_owners(std::shared_ptr<const PieceOwners> owners, std::optional<unsigned> own) {
    std::lock_guard lock(mutex_);
    owners_ = std::move(owners);
    own_ = own;
}

std::string ComingImage::path(Arrivals::Pieces pieces) const {
    return text_of(ComingPath{.manifest = name_, .pieces = pieces});
}

std::string ComingImage::path_of_all(std::optional<unsigned> node) const {
    return text_of(ComingPath{.manifest = name_, .is_all = true, .node = node});
}

std::optional<ComingImage::Answer> ComingImage::answer(std::string_view path, std::string_view here) const {
    auto asked = parse_coming_path(path, partial_->arrivals->count());
    if (!asked || asked->manifest != name_) return std::nullopt;
    if (asked->is_all) {
        auto bits = oci::decode_base64(here);
        return bits ? std::optional(Answer(*this, {}, std::move(*bits), asked->node, true)) : std::nullopt;
    }
    std::vector<Answer::Left> left;
    for (uint32_t i = 0; i < asked->pieces.count; ++i) left.push_back({asked->pieces.first + i});
    return Answer(*this, std::move(left), "", std::nullopt, false);
}

bool ComingImage::is_passed_on(uint32_t piece) const {
    std::lock_guard lock(mutex_);
    return owners_ && own_ && owners_->is_passed_on(piece, *own_);
}

ComingImage::Place ComingImage::place(uint32_t piece) const {
    const store::PartialLayer& layer =
        partial_->layers[static_cast<size_t>(std::ranges::upper_bound(ends_, piece) - ends_.begin())];
    return {&layer, uint64_t{piece - layer.first} * Arrivals::piece_size};
}

uint32_t ComingImage::size(uint32_t piece) const {
    Place where = place(piece);
    return static_cast<uint32_t>(std::min(Arrivals::piece_size, where.layer->size - where.at));
}

size_t ComingImage::read(uint32_t piece, uint32_t offset, char* out, size_t size) const {
    Place where = place(piece);
    for (;;) {
        ssize_t got = ::pread(where.layer->file.get(), out, size, static_cast<off_t>(where.at + offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            throw SysError(cat("reading layer ", where.layer->diff_id, " for another node"), got < 0 ? errno : EIO);
        return static_cast<size_t>(got);
    }
}

ComingImage::Answer::Answer(const ComingImage& image, std::vector<Left> asked, std::string here,
                            std::optional<unsigned> node, bool is_all)
    : image_(&image), is_all_(is_all), node_(node), here_(std::move(here)), left_(std::move(asked)) {}

size_t ComingImage::Answer::fill(char* out, size_t size) {
    size_t done = 0;
    // Head and bytes go together: a head of its own would be a packet of its own.
    if (!in_part_) {
        if (is_over_) return 0;
        part_.clear();
        head_ = next();
        is_over_ = head_.piece == ComingHead::complete || head_.piece == ComingHead::failed;
        in_part_ = head_.size > 0;
        sent_ = 0;
        std::array<char, ComingHead::wire_size> bytes = encode(head_);
        std::copy(bytes.begin(), bytes.end(), out);
        done = bytes.size();
        if (!in_part_ || done == size) return done;
    }
    size_t count = std::min<size_t>(size - done, head_.size - sent_);
    if (part_.empty()) count = image_->read(head_.piece, head_.offset + sent_, out + done, count);
    else part_.copy(out + done, count, sent_);
    sent_ += static_cast<uint32_t>(count);
    if (sent_ == head_.size) in_part_ = false;
    return done + count;
}

ComingHead ComingImage::Answer::next() { return is_all_ ? next_of_all() : next_asked(); }

/// Asks for it as somebody of this node would: it comes before what nobody waits for.
ComingHead ComingImage::Answer::next_asked() {
    if (next_asked_ == left_.size()) return {ComingHead::complete};
    Arrivals& arrivals = *image_->partial_->arrivals;
    auto end = Clock::now() + word_time;
    // All at once, so that one request does.
    if (next_asked_ == 0) arrivals.ask({left_.front().piece, static_cast<uint32_t>(left_.size())});
    int problem = arrivals.wait({left_[next_asked_].piece, 1}, [&] { return Clock::now() >= end; });
    if (problem == -EINTR) return {ComingHead::waiting};
    if (problem != 0) return {ComingHead::failed};
    uint32_t piece = left_[next_asked_++].piece;
    return {piece, image_->size(piece)};
}

bool ComingImage::Answer::find_all() {
    std::unique_lock lock(image_->mutex_);
    auto owners = image_->owners_;
    auto own = image_->own_;
    lock.unlock();
    if (owners == known_) return known_ != nullptr;
    known_ = owners;
    std::vector<Left> before = std::exchange(left_, {});
    for (uint32_t piece = 0; own && piece < image_->partial_->arrivals->count(); ++piece) {
        auto found = std::ranges::lower_bound(before, piece, {}, &Left::piece);
        if (found != before.end() && found->piece == piece) left_.push_back(*found);
        else if (owners->source(piece, node_) == *own && !has_bit(here_, piece))
            left_.push_back({piece, owners->is_in_profile(piece)});
    }
    size_t neighbours = std::max<size_t>(owners->sources(node_).size(), 1);
    parts_limit_ = std::clamp<size_t>(parts_limit / neighbours, 1, neighbour_parts_limit);
    return true;
}

/// What is left of a piece that is here.
std::optional<ComingHead> ComingImage::Answer::next_whole(bool of_profile) {
    const Arrivals& arrivals = *image_->partial_->arrivals;
    auto found = std::ranges::find_if(left_, [&](const Left& left) {
        return left.is_in_profile == of_profile && arrivals.is_here(left.piece);
    });
    if (found == left_.end()) return std::nullopt;
    Left left = *found;
    left_.erase(found);
    set_bit(here_, left.piece);
    uint32_t from = left.beginning == image_->coming_.beginning(left.piece) ? left.sent : 0;
    return ComingHead{left.piece, image_->size(left.piece) - from, from};
}

/// Of a piece that is on its way, what has come and was not sent, but for its last bytes: whoever has those may check
/// it, and would find this node wrong.
std::optional<ComingHead> ComingImage::Answer::next_part(bool of_profile) {
    constexpr uint32_t unit = PartialPieces::unit;
    const PartialPieces& coming = image_->coming_;
    auto has_parts = [](const Left& left) { return left.sent > 0; };
    bool is_full = static_cast<size_t>(std::ranges::count_if(left_, has_parts)) >= parts_limit_;
    for (const PartialPieces::Piece& piece : coming.all()) {
        auto left = std::ranges::lower_bound(left_, piece.piece, {}, &Left::piece);
        if (left == left_.end() || left->piece != piece.piece || left->is_in_profile != of_profile) continue;
        if (left->sent == 0 && is_full) continue;
        uint32_t beginning = coming.beginning(piece.piece);
        if (left->beginning != beginning) left->sent = 0, left->beginning = beginning;
        uint32_t behind = std::min(piece.size, image_->size(piece.piece) - 1) / unit * unit;
        if (behind <= left->sent) continue;
        part_ = coming.bytes(piece.piece, beginning, left->sent, std::min(behind - left->sent, part_limit));
        if (part_.empty()) continue;
        ComingHead out{piece.piece, static_cast<uint32_t>(part_.size()), left->sent};
        left->sent += out.size;
        return out;
    }
    return std::nullopt;
}

/// Whatever of it is here or comes, what starts read first.
ComingHead ComingImage::Answer::next_of_all() {
    const PartialPieces& coming = image_->coming_;
    for (auto end = Clock::now() + word_time;;) {
        uint32_t news = coming.news();
        auto looked = Clock::now();
        if (find_all()) {
            if (left_.empty()) return {ComingHead::complete};
            for (bool of_profile : {true, false}) {
                if (auto whole = next_whole(of_profile)) return *whole;
                if (auto part = next_part(of_profile)) return *part;
            }
        }
        auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0) return {ComingHead::waiting};
        coming.wait_for_news(news, left);
        std::this_thread::sleep_until(looked + between_looks);
    }
}

}  // namespace berth::pull::share
