// An image that runs before it is here, as a node offers it to the others of the step: chunks that have come, and parts
// of those that are on their way.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/pull/nodes/chunks/chunk_stream.hh"
#include "runtime/pull/nodes/chunks/partial_chunks.hh"
#include "runtime/pull/nodes/policy/chunk_owners.hh"
#include "runtime/store/partial.hh"

namespace berth::pull::nodes {

/// A word for a set of chunks, for here_header; empty when it would be too long for a header.
std::string word_of(const ChunkMap& map);

/// Safe to use from all threads.
class LazyImage : public Offer {
  public:
    LazyImage(std::shared_ptr<const store::Partial> partial, const Digest& manifest);

    /// Who asks whom, and this node's place. Until then nobody is sent what was not asked for by number. When it
    /// changes, answers that are being sent have the chunks that the node takes from this one by now, too.
    void set_owners(std::shared_ptr<const ChunkOwners> owners, std::optional<unsigned> own);

    std::string name() const override { return name_; }
    /// See ImagePath. Chunks that are named come in their order, for somebody who waits for them. All come as they are
    /// here, what starts read before the rest; of what is on its way to this one, the part that has come. The last part
    /// is sent of a chunk that has been checked alone.
    std::unique_ptr<ChunkStream> answer(std::string_view path, std::string_view here) const override;

    std::string path(ChunkMap::Chunks chunks) const;
    std::string path_of_all(std::optional<unsigned> node) const;
    /// Bytes of a chunk.
    uint32_t size(uint32_t chunk) const;
    /// What has come of those that are not here.
    PartialChunks& coming() { return coming_; }
    /// Some node takes the chunk from this one.
    bool is_passed_on(uint32_t chunk) const;

  private:
    class Asked;
    class All;
    struct Place {
        const store::PartialLayer* layer;
        uint64_t at;
    };
    Place place(uint32_t chunk) const;
    size_t read(uint32_t chunk, uint32_t offset, char* out, size_t size) const;

    std::shared_ptr<const store::Partial> partial_;
    std::string name_;
    std::vector<uint32_t> ends_;
    PartialChunks coming_;
    mutable std::mutex mutex_;
    std::shared_ptr<const ChunkOwners> owners_;
    std::optional<unsigned> own_;
};

}  // namespace berth::pull::nodes
