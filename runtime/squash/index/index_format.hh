// The layout of an index file. Everything is little endian and every section starts at a multiple of 8, so the bytes
// are used as they are in the file.
//
//   header      Header below: magic, version, hashes, and the place of each section
//   pages       u64[]: bulk_hash of each 4 KiB page of what follows, which starts at a multiple of 4096; the last page
//               ends with the file
//   inodes      InodeRecord[]; number N stands at position N - 1; 1 is the root; breadth-first order
//   entries     EntryRecord[]; those of a directory together, sorted by the bytes of the name
//   names       for each entry one byte of length and the name; the targets of symlinks, bare (their length is the
//               inode's size)
//   blocks      u32[]: on-disk size of each data block; bit 24 set: stored uncompressed; 0: a hole. Those of a file
//               together, in order
//   sums        u64[]: at position i the sum of the on-disk sizes of blocks 0 .. 64*i-1 of the section, so that the
//               place of any block of a file is found with at most 128 additions
//   hashes      u64[]: beside each of blocks the hash of its stored bytes; 0: not known. Empty when none is known
//   fragments   FragmentRecord[]: blocks shared by the tails of many files
//   xattrs      sets: u32 count, then count times {u16 length of name, u32 length of value, name, value}; an inode
//               holds offset + 1
//   layers      LayerRecord[]; their names are in the section config
//   config      lists of strings: u32 count, then count times {u32 length, bytes}. In order: names of the layers, env,
//               entrypoint, cmd, {working_dir, user, architecture}, volumes, and, where one of them is not "0", {1 for
//               a config of Enroot's, number of unread lines}, see plan::ImageConfig
//
// What a reader must not trust: any number. Opening checks the hashes of the header and of the table of pages, and that
// each section is inside the file; every later access checks the positions it follows, and, the first time, the pages
// that it touches: to hash all of an index at each start would take milliseconds. A reader refuses another version: an
// index is a cache and is built again from its layers. Version 3 is the file `index` of an image in the store. A later
// version N is to be `index.N`, so that two releases that share a store do not replace each other's.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace berth::squash::format {

inline constexpr char magic[8] = {'b', 'e', 'r', 't', 'h', 'i', 'd', 'x'};
inline constexpr uint32_t version = 3;
inline constexpr uint32_t flag_xattrs = 1;
/// Blocks between two sums.
inline constexpr uint32_t sum_interval = 64;
inline constexpr uint32_t no_fragment = ~0U;
inline constexpr uint64_t page_size = 4096;

enum Section : uint32_t {
    inodes,
    entries,
    names,
    blocks,
    sums,
    fragments,
    xattrs,
    layers,
    config,
    hashes,
    pages,
    section_count
};

struct Range {
    uint64_t offset;  ///< from the start of the file
    uint64_t size;    ///< bytes
};

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t flags;
    uint64_t file_size;
    uint64_t header_hash;  ///< of the header with this field 0
    uint64_t pages_hash;   ///< of the section pages
    uint32_t inode_count;
    uint32_t range_count;  ///< section_count
    Range sections[section_count];
};
static_assert(sizeof(Header) == 48 + 16 * section_count);

/// The last fields depend on the type in `mode`:
///   file       a layer, b offset of the first block in the layer file, c position in blocks, d position in fragments,
///              e offset in the fragment
///   directory  a parent, b position in entries, c number of entries
///   symlink    b offset of the target in names
///   device     a device number
struct InodeRecord {
    uint32_t mode, nlink, uid, gid;
    int64_t mtime;
    uint64_t size;
    uint32_t xattrs;  ///< 1 + offset in the section, 0 for none
    uint32_t a;
    uint64_t b, c;
    uint32_t d, e;
};
static_assert(sizeof(InodeRecord) == 64);

struct EntryRecord {
    uint32_t name;  ///< offset in names
    uint32_t inode;
};

struct FragmentRecord {
    uint64_t start;
    uint32_t size;  ///< on disk, bit 24 as in blocks
    uint32_t unused;
    uint64_t hash;  ///< of its stored bytes; 0: not known
};

struct LayerRecord {
    uint16_t codec;
    uint16_t unused;
    uint32_t block_size;
};

/// A hash against damage, not against malice: multiply and fold over words of 8 bytes, the last one padded with zeros.
inline uint64_t hash(std::string_view bytes) {
    uint64_t state = 0x6265727468ULL ^ bytes.size();
    auto mix = [&](uint64_t word) {
        state = (state ^ word) * 0x9E3779B97F4A7C15ULL;
        state ^= state >> 29;
    };
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof word);
        mix(word);
    }
    if (at < bytes.size()) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, bytes.size() - at);
        mix(word);
    }
    return state;
}

/// The same for a page or a block, in four lanes: one would wait for its multiplications (0.9 us a page instead of
/// 0.25), and a start hashes what it reads. Variables of their own, since compilers would make vectors of an array, and
/// have no good multiplication for these.
inline uint64_t bulk_hash(std::string_view bytes) {
    struct Lane {
        uint64_t state;
        void take(const char* at) {
            uint64_t word = 0;
            std::memcpy(&word, at, sizeof word);
            state = (state ^ word) * 0x9E3779B97F4A7C15ULL;
            state ^= state >> 29;
        }
    };
    Lane a{1}, b{2}, c{3}, d{4};
    size_t at = 0;
    for (; at + 32 <= bytes.size(); at += 32) {
        a.take(bytes.data() + at);
        b.take(bytes.data() + at + 8);
        c.take(bytes.data() + at + 16);
        d.take(bytes.data() + at + 24);
    }
    uint64_t parts[5] = {a.state, b.state, c.state, d.state, hash(bytes.substr(at))};
    return hash({reinterpret_cast<const char*>(parts), sizeof parts});
}

/// The value of `header_hash`.
inline uint64_t hash_of(Header header) {
    header.header_hash = 0;
    return hash({reinterpret_cast<const char*>(&header), sizeof header});
}

}  // namespace berth::squash::format
