// References to blobs and documents, as the OCI image specification writes them. Pure.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/base/digest.hh"

namespace berth::oci {

/// A reference to a blob or document.
struct Descriptor {
    std::string media_type;
    Digest digest;
    uint64_t size = 0;
    std::optional<std::string> data = {};  ///< the content itself, decoded but not verified
};

/// Throws Error naming `what` for what is none.
Descriptor parse_descriptor(const nlohmann::json& value, const std::string& what);
/// Type, digest and size.
nlohmann::json descriptor_json(const Descriptor& descriptor);

}  // namespace berth::oci
