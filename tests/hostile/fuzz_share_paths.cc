// What one node of a step asks another one for: the path of a request, in a line, and behind it the header that says
// what that node has. The first two bytes of an input say how many nodes there are, and which of them has gone.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/peer/lazy_image.hh"
#include "runtime/pull/nodes/policy/plan.hh"
#include "runtime/pull/nodes/protocol/request_path.hh"
#include "runtime/squash/index/tree.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using namespace berth::pull::nodes;
using hostile::must;

constexpr uint32_t chunks = 5;
constexpr size_t answer_limit = (chunks + 64) * (ChunkMap::chunk_size + ChunkHead::wire_size);

const Digest& manifest() {
    static const Digest out = oci::sha256_of("image");
    return out;
}

/// An image of two layers, all of which is here; its chunks are empty.
std::shared_ptr<const store::Partial> image() {
    squash::Index index = squash::Index::from_bytes(squash::build_index(squash::merge({}), {}, {}));
    auto out = std::make_shared<store::Partial>(store::Partial{std::move(index), {}, {}});
    for (uint32_t first : {0U, 3U}) {
        Fd file(::memfd_create("layer", MFD_CLOEXEC));
        uint64_t size = (first == 0 ? 3 : 1) * ChunkMap::chunk_size + (first == 0 ? 0 : 100);
        must(::ftruncate(file.get(), static_cast<off_t>(size)) == 0, "there is no memory for a layer");
        out->layers.push_back({oci::sha256_of(std::to_string(first)), std::move(file), true, size, first});
    }
    Fd memory(::memfd_create("map", MFD_CLOEXEC));
    out->map = ChunkMap::create(memory.get(), chunks, manifest());
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) out->map->set_here(chunk);
    return out;
}

void run_layer(std::string_view path) {
    auto asked = parse_layer_path(path);
    if (!asked) return;
    must(parse_layer_path(text_of(*asked)).has_value(), "the path of a layer is another one");
    must(asked->stripe < stripe_count, "a stripe that there is not");
    // The places behind it have numbers as well.
    must(uint64_t{asked->place} * stripe_count + 2 < UINT32_MAX / 2, "a place that has no number");
}

void run_image(unsigned nodes, unsigned gone, std::string_view path, std::string_view here) {
    static const std::shared_ptr<const store::Partial> partial = image();
    auto asked = parse_image_path(path, chunks);
    if (asked) must(parse_image_path(text_of(*asked), chunks).has_value(), "the path of an image is another one");
    ChunkOwners owners(nodes, {3, chunks}, {4, 0});
    if (gone < nodes && nodes > 1) owners.set_gone(gone);
    for (uint32_t chunk = 0; asked && chunk < chunks; ++chunk)
        must(owners.source(chunk, asked->node) < nodes, "a chunk comes from a node that there is not");
    LazyImage lazy(partial, manifest());
    lazy.set_owners(std::make_shared<const ChunkOwners>(std::move(owners)), 0);
    auto answer = lazy.answer(path, here);
    must(!answer || (asked && name_in(path) == lazy.name()), "an answer to what is no path of it");
    static std::string buffer(1 << 20, '\0');
    size_t sent = 0;
    for (auto got = answer ? answer->fill(buffer.data(), buffer.size()) : std::nullopt; got;
         got = answer->fill(buffer.data(), buffer.size())) {
        sent += *got;
        must(*got <= buffer.size() && sent <= answer_limit, "an answer has no end");
    }
}

void run(std::string_view input) {
    unsigned nodes = hostile::take_byte(input) % 40 + 1, gone = hostile::take_byte(input);
    std::string_view path = hostile::take_line(input);
    run_layer(path);
    run_image(nodes, gone, path, input);
}

const hostile::Registration registration("share_paths", run);

}  // namespace
