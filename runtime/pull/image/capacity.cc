#include "runtime/pull/image/capacity.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

namespace {

/// Measured: a pull that brings nothing takes 14 MB, most of it libraries; the index of 70,000 entries comes to 12 MB
/// at the end.
constexpr uint64_t program_bytes = 32ULL << 20;
/// Of one layer being converted: six chunks of 256 KiB between network and decompressor, its output, libcurl's and
/// TLS's buffers, eight unpacked fragments, and the stacks of two threads.
constexpr uint64_t layer_bytes = 4ULL << 20;
/// A thread's stack and what malloc keeps for it.
constexpr uint64_t thread_bytes = 192ULL << 10;
/// Blocks on their way for each thread: one that it packs, one to go on with.
constexpr unsigned blocks_per_thread = 2;
/// Blocks that a layer fills: of a file, and of fragments.
constexpr unsigned blocks_per_layer = 2;

}  // namespace

Capacity capacity_for(const PullLimits& limits, unsigned cpus) {
    Capacity out;
    uint64_t block = out.pool.block_size;
    uint64_t room = limits.memory - std::min(limits.memory, program_bytes);
    uint64_t layer = layer_bytes + blocks_per_layer * block;
    out.layers = static_cast<unsigned>(std::clamp<uint64_t>(room / 2 / layer, 1, std::max(limits.connections, 1U)));
    room -= std::min(room, out.layers * layer + block);
    uint64_t thread = squash::compressor_memory(limits.compression) + thread_bytes + blocks_per_thread * block;
    unsigned wanted = limits.threads == 0 ? cpus : limits.threads;
    out.pool.threads = static_cast<unsigned>(std::clamp<uint64_t>(room / thread, 1, std::max(wanted, 1U)));
    out.pool.buffers = blocks_per_layer * out.layers + blocks_per_thread * out.pool.threads + 1;
    return out;
}

/// Packed, since that is what a manifest tells beforehand.
void check_size(const oci::Manifest& manifest, const PullLimits& limits, const std::string& what) {
    uint64_t size = 0;
    for (const oci::Descriptor& layer : manifest.layers)
        size = layer.size > UINT64_MAX - size ? UINT64_MAX : size + layer.size;
    if (limits.image_size != 0 && size > limits.image_size)
        throw Error(cat(what, ": its layers have ", human_bytes(size), ", more than the ",
                        human_bytes(limits.image_size), " of ", limits.image_size_rule));
}

}  // namespace berth::pull
