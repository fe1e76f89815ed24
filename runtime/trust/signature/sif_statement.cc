#include "runtime/trust/signature/sif_statement.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::trust {

namespace {

using nlohmann::json;

constexpr std::string_view older_start = "SIFHASH:\n";
constexpr size_t object_limit = 4096;

/// Of the algorithms that are used; SHA-224 and the cut forms of SHA-512 nobody writes.
size_t digits_of(std::string_view algorithm) {
    return algorithm == "sha256" ? 64 : algorithm == "sha384" ? 96 : algorithm == "sha512" ? 128 : 0;
}

SifDigest checked(SifDigest digest, const std::string& what) {
    auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    digest.value = lower(digest.value);
    if (digits_of(digest.algorithm) == 0)
        throw Error(cat(what, ": its digests are ", printable(digest.algorithm), ", not sha256, sha384 or sha512"));
    if (digest.value.size() != digits_of(digest.algorithm) || !std::ranges::all_of(digest.value, is_digit))
        throw Error(cat(what, ": a digest is not what its name says"));
    return digest;
}

SifDigest digest_of(const json& object, const char* name, const std::string& what) {
    std::string text = oci::string_member(object, name, what).value_or("");
    size_t colon = text.find(':');
    if (colon == text.npos) throw Error(cat(what, ": it has no ", name));
    return checked({text.substr(0, colon), text.substr(colon + 1)}, what);
}

template <typename Field>
void add(std::string& out, const Field& field) {
    out.append(reinterpret_cast<const char*>(&field), sizeof field);
}

}  // namespace

SifStatement parse_sif_statement(std::string_view text, const std::string& what) {
    json document = oci::parse_json(text, what);
    if (!document.is_object()) throw Error(cat(what, ": what it signs is no object of JSON"));
    auto version = document.find("version");
    if (version == document.end() || *version != 1) throw Error(cat(what, ": what it signs is not of version 1"));
    const json* header = oci::object_member(document, "header", what);
    const json* objects = oci::array_member(document, "objects", what);
    if (header == nullptr || objects == nullptr || objects->size() > object_limit)
        throw Error(cat(what, ": what it signs has no header, no objects, or more than ", object_limit));
    SifStatement out{digest_of(*header, "digest", what), {}};
    for (const json& object : *objects) {
        if (!object.is_object()) throw Error(cat(what, ": an object that it signs is none of JSON"));
        auto relative = object.find("relativeId");
        if (relative == object.end() || !relative->is_number_unsigned() || *relative > object_limit)
            throw Error(cat(what, ": an object that it signs has no relativeId"));
        out.objects.push_back({relative->get<uint32_t>(), digest_of(object, "descriptorDigest", what),
                               digest_of(object, "objectDigest", what)});
    }
    return out;
}

bool is_older_statement(std::string_view text) {
    return text.starts_with(older_start);
}

SifDigest parse_older_statement(std::string_view text, int32_t hash, const std::string& what) {
    constexpr const char* names[] = {"sha256", "sha384", "sha512"};
    if (hash < 1 || hash > 3) throw Error(cat(what, ": its hash is of unknown kind ", hash));
    text.remove_prefix(older_start.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
    return checked({names[hash - 1], std::string(text)}, what);
}

std::string signed_fields(const squash::sif::Header& header) {
    std::string out;
    add(out, header.launch), add(out, header.magic), add(out, header.version), add(out, header.id);
    return out;
}

std::string signed_fields(const squash::sif::Descriptor& descriptor, uint32_t first) {
    std::string out;
    uint32_t relative = descriptor.id - first;
    add(out, descriptor.type), add(out, descriptor.used), add(out, relative), add(out, descriptor.link);
    add(out, descriptor.size), add(out, descriptor.created), add(out, descriptor.uid), add(out, descriptor.gid);
    add(out, descriptor.name), add(out, descriptor.extra);
    return out;
}

}  // namespace berth::trust
