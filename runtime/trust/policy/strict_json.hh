// Objects of JSON in which every key is known: a typing error in a policy must not make it weaker.
#pragma once
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace berth::trust {

/// A value with its place in the document, for errors.
struct JsonPlace {
    const nlohmann::json& value;
    std::string what;  ///< document and place: `policy /etc/x.json: transports.docker`

    /// Throws Error that names the place.
    [[noreturn]] void fail(std::string_view reason) const;
    /// Throws Error unless it is an object with none but these keys.
    void allow(std::initializer_list<const char*> keys) const;
    void must_be_object() const;
    bool has(const char* key) const { return value.contains(key); }
    /// A member that has to be there.
    JsonPlace at(const char* key) const;
    JsonPlace at(size_t position) const;

    // Throw Error for another type. null is an empty text or list where the reference implementation takes it so.
    std::string text() const;
    std::string text(const char* key) const { return at(key).text(); }
    std::vector<std::string> texts() const;
    /// What base64 says; line ends in it do not count.
    std::string bytes() const;
};

}  // namespace berth::trust
