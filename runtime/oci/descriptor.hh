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

/// Throws Error naming `what` for what is none. With `may_lack_type` the media type may be empty or absent.
Descriptor parse_descriptor(const nlohmann::json& value, const std::string& what, bool may_lack_type = false);
/// Throws Error for a `digest` that is neither sha256's nor of the form that the specification has for other
/// algorithms. `value` is an object.
void check_digest_form(const nlohmann::json& value, const std::string& what);
/// Type, digest and size.
nlohmann::json descriptor_json(const Descriptor& descriptor);

}  // namespace berth::oci
