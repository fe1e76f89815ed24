#include "runtime/pull/nodes/policy/chunk_owners.hh"

#include <algorithm>
#include <set>

namespace berth::pull::nodes {

namespace {

constexpr unsigned nobody = ~0U;

unsigned columns_for(unsigned nodes) {
    if (nodes <= ChunkOwners::row_limit) return nodes;
    unsigned out = 1;
    while (out * out < nodes) ++out;
    return out;
}

/// Chunks of the profile in a run: a start waits for the node that has most to send.
uint32_t profile_run_length(size_t chunks, unsigned nodes) {
    size_t rounded = (chunks + nodes / 2) / nodes;
    return static_cast<uint32_t>(std::clamp<size_t>(rounded, 1, ChunkOwners::profile_chunks_a_run));
}

/// And of the rest: as many for each node, but not many small requests.
uint32_t rest_run_length(size_t chunks, unsigned nodes) {
    auto divided = [](size_t number, size_t by) { return (number + by - 1) / by; };
    size_t rounds = std::max<size_t>(divided(chunks, size_t{ChunkOwners::chunks_a_run} * nodes), 1);
    return std::max(static_cast<uint32_t>(divided(chunks, rounds * nodes)), ChunkOwners::least_chunks_a_run);
}

/// Where the chunk's layer ends.
uint32_t end_of_layer(const std::vector<uint32_t>& ends, uint32_t chunk) {
    return *std::ranges::upper_bound(ends, chunk);
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
        for (uint32_t chunk = first; chunk < end && owners_[chunk] == nobody && is_in(chunk); ++chunk)
            owners_[chunk] = order_[next_];
        next_ = (next_ + 1) % order_.size();
    }

  private:
    std::vector<unsigned> order_;
    const std::vector<uint32_t>& ends_;
    std::vector<unsigned>& owners_;
    size_t next_ = 0;
};

}  // namespace

ChunkOwners::ChunkOwners(unsigned nodes, const std::vector<uint32_t>& ends, const std::vector<uint32_t>& profile)
    : nodes_(nodes),
      columns_(columns_for(nodes)),
      owners_(ends.empty() ? 0 : ends.back(), nobody),
      is_gone_(nodes),
      is_in_profile_(owners_.size()) {
    for (uint32_t chunk : profile)
        if (chunk < owners_.size()) is_in_profile_[chunk] = true;
    size_t of_profile = static_cast<size_t>(std::ranges::count(is_in_profile_, true));
    uint32_t profile_run = profile_run_length(of_profile, nodes);
    uint32_t run = rest_run_length(owners_.size() - of_profile, nodes);
    Dealer dealer(diagonal_order(nodes, columns_), ends, owners_);
    for (uint32_t chunk : profile)
        if (chunk < owners_.size())
            dealer.deal(chunk, profile_run, [&](uint32_t next) { return is_in_profile_[next]; });
    for (uint32_t chunk = 0; chunk < owners_.size(); ++chunk)
        dealer.deal(chunk, run, [&](uint32_t next) { return !is_in_profile_[next]; });
    first_owners_ = owners_;
}

void ChunkOwners::set_gone(unsigned node) {
    is_gone_[node] = true;
    for (unsigned gone = 0; gone < nodes_; ++gone)
        if (is_gone_[gone]) deal_again(gone);
}

/// What the node was to bring first goes to one of its successors after the other, in runs of neighbours.
void ChunkOwners::deal_again(unsigned gone) {
    std::vector<unsigned> to = successors(gone);
    if (to.empty()) return;
    size_t runs = 0;
    for (uint32_t chunk = 0, first = 0, behind = 0; chunk < owners_.size(); ++chunk) {
        if (first_owners_[chunk] != gone) continue;
        if (chunk != behind || chunk - first == least_chunks_a_run) ++runs, first = chunk;
        behind = chunk + 1;
        owners_[chunk] = to[runs % to.size()];
    }
}

/// Those of a node's column, whose rows have its chunks from them anyway; else all that are left.
std::vector<unsigned> ChunkOwners::successors(unsigned node) const {
    std::vector<unsigned> out, all;
    for (unsigned other = 0; other < nodes_; ++other) {
        if (is_gone_[other]) continue;
        all.push_back(other);
        if (other % columns_ == node % columns_) out.push_back(other);
    }
    return out.empty() ? all : out;
}

unsigned ChunkOwners::source(uint32_t chunk, std::optional<unsigned> node) const {
    unsigned owner = owners_[chunk];
    // A number that no node has is of one who asks, and says what it likes.
    if (!node || *node >= nodes_ || *node / columns_ == owner / columns_) return owner;
    unsigned relay = *node / columns_ * columns_ + owner % columns_;
    // The last row may be shorter than the others.
    if (relay >= nodes_) relay -= columns_;
    return relay == *node || is_gone_[relay] ? owner : relay;
}

bool ChunkOwners::is_passed_on(uint32_t chunk, unsigned node) const {
    unsigned owner = owners_[chunk];
    return nodes_ > 1 && (owner == node || (columns_ < nodes_ && owner % columns_ == node % columns_));
}

std::vector<unsigned> ChunkOwners::sources(std::optional<unsigned> node) const {
    std::set<unsigned> out;
    for (uint32_t chunk = 0; chunk < owners_.size(); ++chunk) out.insert(source(chunk, node));
    if (node) out.erase(*node);
    return {out.begin(), out.end()};
}

}  // namespace berth::pull::nodes
