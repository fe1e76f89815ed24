#include "runtime/oci/descriptor.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::oci {

using nlohmann::json;

Descriptor parse_descriptor(const json& value, const std::string& what) {
    if (!value.is_object()) throw Error(cat(what, ": a descriptor is not an object"));
    std::string media_type = string_member(value, "mediaType", what).value_or("");
    if (media_type.empty()) throw Error(cat(what, ": a descriptor has no mediaType"));
    std::string text = string_member(value, "digest", what).value_or("");
    auto digest = Digest::parse(text);
    if (!digest)
        throw Error(
            cat(what, ": the digest \"", printable(text), "\" is not sha256: and 64 lower-case hexadecimal digits"));
    Descriptor out{media_type, *digest};
    auto size = value.find("size");
    if (size == value.end() || !size->is_number_unsigned() || size->get<uint64_t>() > INT64_MAX)
        throw Error(cat(what, ": the size of ", out.digest, " is not a whole number of bytes"));
    out.size = size->get<uint64_t>();
    auto data = string_member(value, "data", what);
    if (!data) return out;
    out.data = decode_base64(*data);
    if (!out.data) throw Error(cat(what, ": the inline data of ", out.digest, " is not base64"));
    if (out.data->size() != out.size)
        throw Error(
            cat(what, ": the inline data of ", out.digest, " has ", out.data->size(), " bytes instead of ", out.size));
    return out;
}

json descriptor_json(const Descriptor& descriptor) {
    return {{"mediaType", descriptor.media_type}, {"digest", descriptor.digest.text()}, {"size", descriptor.size}};
}

}  // namespace berth::oci
