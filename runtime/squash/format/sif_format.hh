// What stands in a SIF file, version 01. All numbers are little-endian. Source: github.com/apptainer/sif, pkg/sif.
#pragma once
#include <bit>
#include <cstdint>

namespace berth::squash::sif {

static_assert(std::endian::native == std::endian::little, "the structures below are read and written as they are");

struct __attribute__((packed)) Header {
    char launch[32];  ///< a line for the kernel, "#!/usr/bin/env run-singularity"
    char magic[10];
    char version[3];
    char architecture[3];
    char id[16];  ///< a UUID
    int64_t created, modified;  ///< seconds since 1970
    int64_t free, total;        ///< descriptors
    int64_t descriptors_offset, descriptors_size, data_offset, data_size;  ///< bytes
};
static_assert(sizeof(Header) == 128);

struct __attribute__((packed)) Descriptor {
    int32_t type;
    uint8_t used;
    uint32_t id;     ///< from 1 on
    uint32_t group;  ///< with group_mark
    uint32_t link;   ///< of a signature: to an object, or with group_mark to a group
    int64_t offset, size;
    int64_t stored_size;  ///< with the padding before it
    int64_t created, modified, uid, gid;
    char name[128];
    union {
        char extra[384];
        struct __attribute__((packed)) {
            int32_t file_system, role;
            char architecture[3];
        };  ///< of a partition
        struct __attribute__((packed)) {
            int32_t hash;  ///< 1: SHA-256, 2: SHA-384, 3: SHA-512; what the older form of signatures is about
            uint8_t fingerprint[20];  ///< of the key, or zeros
        };  ///< of a signature
    };
};
static_assert(sizeof(Descriptor) == 585);

constexpr char sif_magic[] = "SIF_MAGIC";
constexpr int32_t type_definition = 0x4001, type_partition = 0x4004, type_signature = 0x4005, type_json = 0x4006,
                  type_oci_index = 0x400A, type_oci_blob = 0x400B;
constexpr int32_t role_primary = 2, role_overlay = 4;
constexpr int32_t file_system_squashfs = 1;
/// Set in all numbers of groups; nothing beside it: none.
constexpr uint32_t group_mark = 0xf0000000;

}  // namespace berth::squash::sif
