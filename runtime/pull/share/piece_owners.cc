#include "runtime/pull/share/piece_owners.hh"

#include <algorithm>
#include <set>

namespace berth::pull::share {

namespace {

constexpr unsigned nobody = ~0U;

unsigned columns_for(unsigned nodes) {
    if (nodes <= PieceOwners::row_limit) return nodes;
    unsigned out = 1;
    while (out * out < nodes) ++out;
    return out;
}

/// Pieces of the profile in a run: a start waits for the node that has most to send.
uint32_t profile_run_length(size_t pieces, unsigned nodes) {
    size_t rounded = (pieces + nodes / 2) / nodes;
    return static_cast<uint32_t>(std::clamp<size_t>(rounded, 1, PieceOwners::profile_pieces_a_run));
}

/// And of the rest: as many for each node, but not many small requests.
uint32_t rest_run_length(size_t pieces, unsigned nodes) {
    auto divided = [](size_t number, size_t by) { return (number + by - 1) / by; };
    size_t rounds = std::max<size_t>(divided(pieces, size_t{PieceOwners::pieces_a_run} * nodes), 1);
    return std::max(static_cast<uint32_t>(divided(pieces, rounds * nodes)), PieceOwners::least_pieces_a_run);
}

/// Where the piece's layer ends.
uint32_t end_of_layer(const std::vector<uint32_t>& ends, uint32_t piece) {
    return *std::ranges::upper_bound(ends, piece);
}

/// All nodes, those of different rows and columns one after the other: what one owns, all of its column pass on.
std::vector<unsigned> diagonal_order(unsigned nodes, unsigned columns) {
    std::vector<unsigned> out;
    unsigned rows = (nodes + columns - 1) / columns;
    for (unsigned shift = 0; shift < columns; ++shift)
        for (unsigned row = 0; row < rows; ++row)
            if (unsigned node = row * columns + (row + shift) % columns; node < nodes) out.push_back(node);
    return out;
}

/// Gives runs of neighbours to one node after the other.
class Dealer {
  public:
    Dealer(std::vector<unsigned> order, const std::vector<uint32_t>& ends, std::vector<unsigned>& owners)
        : order_(std::move(order)), ends_(ends), owners_(owners) {}

    /// The run that begins with `first`, of those for which `is_in` holds.
    template <typename IsIn>
    void deal(uint32_t first, uint32_t limit, const IsIn& is_in) {
        if (owners_[first] != nobody) return;
        uint32_t end = std::min(first + limit, end_of_layer(ends_, first));
        for (uint32_t piece = first; piece < end && owners_[piece] == nobody && is_in(piece); ++piece)
            owners_[piece] = order_[next_];
        next_ = (next_ + 1) % order_.size();
    }

  private:
    std::vector<unsigned> order_;
    const std::vector<uint32_t>& ends_;
    std::vector<unsigned>& owners_;
    size_t next_ = 0;
};

}  // namespace

PieceOwners::PieceOwners(unsigned nodes, const std::vector<uint32_t>& ends, const std::vector<uint32_t>& profile)
    : nodes_(nodes),
      columns_(columns_for(nodes)),
      owners_(ends.empty() ? 0 : ends.back(), nobody),
      is_gone_(nodes),
      is_in_profile_(owners_.size()) {
    for (uint32_t piece : profile)
        if (piece < owners_.size()) is_in_profile_[piece] = true;
    size_t of_profile = static_cast<size_t>(std::ranges::count(is_in_profile_, true));
    uint32_t profile_run = profile_run_length(of_profile, nodes);
    uint32_t run = rest_run_length(owners_.size() - of_profile, nodes);
    Dealer dealer(diagonal_order(nodes, columns_), ends, owners_);
    for (uint32_t piece : profile)
        if (piece < owners_.size())
            dealer.deal(piece, profile_run, [&](uint32_t next) { return is_in_profile_[next]; });
    for (uint32_t piece = 0; piece < owners_.size(); ++piece)
        dealer.deal(piece, run, [&](uint32_t next) { return !is_in_profile_[next]; });
    first_owners_ = owners_;
}

void PieceOwners::set_gone(unsigned node) {
    is_gone_[node] = true;
    for (unsigned gone = 0; gone < nodes_; ++gone)
        if (is_gone_[gone]) deal_again(gone);
}

/// What the node was to bring first goes to one of its successors after the other, in runs of neighbours.
void PieceOwners::deal_again(unsigned gone) {
    std::vector<unsigned> to = successors(gone);
    if (to.empty()) return;
    size_t runs = 0;
    for (uint32_t piece = 0, first = 0, behind = 0; piece < owners_.size(); ++piece) {
        if (first_owners_[piece] != gone) continue;
        if (piece != behind || piece - first == least_pieces_a_run) ++runs, first = piece;
        behind = piece + 1;
        owners_[piece] = to[runs % to.size()];
    }
}

/// Those of a node's column, whose rows have its pieces from them anyway; else all that are left.
std::vector<unsigned> PieceOwners::successors(unsigned node) const {
    std::vector<unsigned> out, all;
    for (unsigned other = 0; other < nodes_; ++other) {
        if (is_gone_[other]) continue;
        all.push_back(other);
        if (other % columns_ == node % columns_) out.push_back(other);
    }
    return out.empty() ? all : out;
}

unsigned PieceOwners::source(uint32_t piece, std::optional<unsigned> node) const {
    unsigned owner = owners_[piece];
    // A number that no node has is of one who asks, and says what it likes.
    if (!node || *node >= nodes_ || *node / columns_ == owner / columns_) return owner;
    unsigned relay = *node / columns_ * columns_ + owner % columns_;
    // The last row may be shorter than the others.
    if (relay >= nodes_) relay -= columns_;
    return relay == *node || is_gone_[relay] ? owner : relay;
}

bool PieceOwners::is_passed_on(uint32_t piece, unsigned node) const {
    unsigned owner = owners_[piece];
    return nodes_ > 1 && (owner == node || (columns_ < nodes_ && owner % columns_ == node % columns_));
}

std::vector<unsigned> PieceOwners::sources(std::optional<unsigned> node) const {
    std::set<unsigned> out;
    for (uint32_t piece = 0; piece < owners_.size(); ++piece) out.insert(source(piece, node));
    if (node) out.erase(*node);
    return {out.begin(), out.end()};
}

}  // namespace berth::pull::share
