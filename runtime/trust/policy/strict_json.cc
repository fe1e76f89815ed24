#include "runtime/trust/policy/strict_json.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"

namespace berth::trust {

void JsonPlace::fail(std::string_view reason) const { throw Error(cat(what, ": ", reason)); }

void JsonPlace::must_be_object() const {
    if (!value.is_object()) fail("is not an object");
}

void JsonPlace::allow(std::initializer_list<const char*> keys) const {
    must_be_object();
    for (const auto& [key, member] : value.items())
        if (std::find(keys.begin(), keys.end(), key) == keys.end())
            fail(cat("the key \"", printable(key, 64), "\" is unknown"));
}

JsonPlace JsonPlace::at(const char* key) const {
    auto found = value.find(key);
    if (found == value.end()) fail(cat("\"", key, "\" is missing"));
    return {*found, cat(what, ".", key)};
}

JsonPlace JsonPlace::at(size_t position) const { return {value.at(position), cat(what, "[", position, "]")}; }

std::string JsonPlace::text() const {
    if (value.is_null()) return {};
    if (!value.is_string()) fail("is not a string");
    auto out = value.get<std::string>();
    if (out.find('\0') != out.npos) fail("holds a NUL byte");
    return out;
}

std::vector<std::string> JsonPlace::texts() const {
    std::vector<std::string> out;
    if (value.is_null()) return out;
    if (!value.is_array()) fail("is not a list");
    for (size_t i = 0; i < value.size(); ++i) out.push_back(at(i).text());
    return out;
}

std::string JsonPlace::bytes() const {
    std::string encoded = text();
    std::erase_if(encoded, [](char c) { return c == '\r' || c == '\n'; });
    auto out = oci::decode_base64(encoded);
    if (!out) fail("is not base64");
    return *out;
}

}  // namespace berth::trust
