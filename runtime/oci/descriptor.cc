#include "runtime/oci/descriptor.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

[[noreturn]] void refuse_digest(const std::string& text, const std::string& what) {
    throw Error(
        cat(what, ": the digest \"", printable(text), "\" is not sha256: and 64 lower-case hexadecimal digits"));
}

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// algorithm ::= component (separator component)*, separator one of "+._-"; encoded ::= [a-zA-Z0-9=_-]+
bool has_digest_form(std::string_view text) {
    size_t colon = text.find(':');
    if (colon == text.npos) return false;
    std::string_view algorithm = text.substr(0, colon), encoded = text.substr(colon + 1);
    bool after_separator = true;
    for (char c : algorithm) {
        bool is_separator = std::string_view("+._-").find(c) != std::string_view::npos;
        if (is_separator ? after_separator : !is_lower_or_digit(c)) return false;
        after_separator = is_separator;
    }
    auto may_encode = [](char c) {
        return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '=' || c == '_' || c == '-';
    };
    return !after_separator && !encoded.empty() && std::ranges::all_of(encoded, may_encode);
}

}  // namespace

void check_digest_form(const json& value, const std::string& what) {
    std::string text = string_member(value, "digest", what).value_or("");
    bool is_other = !text.starts_with("sha256:") && has_digest_form(text);
    if (!is_other && !Digest::parse(text)) refuse_digest(text, what);
}

Descriptor parse_descriptor(const json& value, const std::string& what, bool may_lack_type) {
    if (!value.is_object()) throw Error(cat(what, ": a descriptor is not an object"));
    std::string media_type = string_member(value, "mediaType", what).value_or("");
    if (media_type.empty() && !may_lack_type) throw Error(cat(what, ": a descriptor has no mediaType"));
    std::string text = string_member(value, "digest", what).value_or("");
    auto digest = Digest::parse(text);
    if (!digest) refuse_digest(text, what);
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
