// What a signature of a SIF file says. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/squash/format/sif_format.hh"

namespace berth::trust {

/// A digest as such signatures write it, "sha256:..." (also sha384, sha512).
struct SifDigest {
    std::string algorithm;  ///< as OpenSSL names it
    std::string value;      ///< hexadecimal digits in lower case
};

struct SifStatement {
    struct Object {
        uint32_t relative = 0;  ///< its id less the lowest one of its group
        SifDigest descriptor, content;
    };
    SifDigest header;
    std::vector<Object> objects;
};

/// The statement that the text of a signature is; `what` names it in errors. Throws Error for another version or form.
SifStatement parse_sif_statement(std::string_view text, const std::string& what);

/// Whether the text of a signature is that of the older form.
bool is_older_statement(std::string_view text);
/// Its one digest, over the content of all that it covers. `hash`: as the descriptor of the signature has it. Throws
/// Error.
SifDigest parse_older_statement(std::string_view text, int32_t hash, const std::string& what);

/// The bytes of the header, and of the descriptor of an object, that signatures are about. `first`: the lowest id of
/// the object's group.
std::string signed_fields(const squash::sif::Header& header);
std::string signed_fields(const squash::sif::Descriptor& descriptor, uint32_t first);

}  // namespace berth::trust
