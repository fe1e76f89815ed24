// Image manifests, image indexes and image configs of the OCI image specification and Docker's v2 schema 2. Pure: text
// in, values out. Sources: https://github.com/opencontainers/image-spec/tree/v1.1.1, and
// https://distribution.github.io/distribution/spec/manifest-v2-2.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/oci/descriptor.hh"
#include "runtime/plan/image_config.hh"

namespace berth::oci {

inline constexpr uint64_t document_limit = 4 << 20;  ///< bytes of a manifest, index or config
inline constexpr size_t layer_limit = 1024;
inline constexpr unsigned nesting_limit = 4;  ///< indexes above a manifest

struct Platform {
    std::string os;
    std::string architecture;
    std::string variant;

    /// "linux/arm64/v8"
    std::string text() const;
};

struct Manifest {
    Descriptor config;
    std::vector<Descriptor> layers = {};  ///< the base first
};

struct ImageIndex {
    struct Entry {
        Descriptor descriptor;
        std::optional<Platform> platform = {};
    };
    /// An entry that this release cannot read, such as one with a digest of another algorithm.
    struct Unreadable {
        std::optional<Platform> platform;
        std::string problem;  ///< the line for who chooses it
    };
    std::vector<Entry> entries;  ///< those of a type that can lead to an image
    std::vector<Unreadable> unreadable = {};
};

/// `content_type` is the Content-Type or descriptor type it came with; "" or a generic type says nothing. Throws Error
/// naming `what` for anything the specifications or our limits forbid, with schema 1 and artifacts that are no images
/// named as such.
std::variant<Manifest, ImageIndex> parse_manifest(std::string_view text, std::string_view content_type,
                                                  const std::string& what);

/// What this machine runs: variants from the poorest to the richest, and "" for none.
struct Machine {
    std::string architecture;
    std::vector<std::string> variants;

    bool operator==(const Machine&) const = default;
};
/// Of the processor that this process runs on.
Machine this_machine();

/// The machine that a person names: an architecture as the image specification, `uname -m` or Debian write it ("amd64",
/// "aarch64", "armhf"), and "/VARIANT" where another than the usual one is meant ("arm/v6"). Pure.
Machine machine_named(std::string_view name);

/// Of the entries for linux on `machine` the first that asks for the least variant, else the first that names no
/// platform. Throws the problem of an unreadable one when only that fits, else Error that lists what there is. Names
/// count as containerd reads them: in any case of their letters, and "x86_64" for "amd64".
const Descriptor& choose_platform(const ImageIndex& index, const Machine& machine, const std::string& what);

struct ImageDescription {
    plan::ImageConfig config;
    std::vector<Digest> diff_ids;  ///< one a layer, the base first
};

/// Reads an image config. Throws Error naming `what` when it is not for linux, or rootfs does not list `layer_count`
/// layers.
ImageDescription parse_config(std::string_view text, size_t layer_count, const std::string& what);

}  // namespace berth::oci
