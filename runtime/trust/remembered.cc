#include "runtime/trust/remembered.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/trust/policy/strict_json.hh"

namespace berth::trust {

using nlohmann::json;

namespace {

const char* word_of(Signature::Kind kind) {
    return kind == Signature::Kind::payload ? "payload" : kind == Signature::Kind::bundle ? "bundle" : "gpg";
}

Signature::Kind kind_of(const JsonPlace& place) {
    std::string word = place.text();
    for (auto kind : {Signature::Kind::payload, Signature::Kind::bundle, Signature::Kind::gpg})
        if (word == word_of(kind)) return kind;
    place.fail("is no kind of signature");
}

}  // namespace

std::string format_remembered(const std::vector<Signature>& signatures) {
    json list = json::array();
    for (const Signature& one : signatures)
        list.push_back({{"kind", word_of(one.kind)},
                        {"content", oci::encode_base64(one.content)},
                        {"signature", one.signature},
                        {"source", one.source}});
    return json{{"signatures", list}}.dump();
}

std::vector<Signature> parse_remembered(std::string_view text, const std::string& what) {
    json document = oci::parse_json(text, what);
    JsonPlace root{document, what};
    root.allow({"signatures"});
    JsonPlace list = root.at("signatures");
    if (!list.value.is_array()) list.fail("is not a list");
    std::vector<Signature> out;
    for (size_t i = 0; i < list.value.size(); ++i) {
        JsonPlace one = list.at(i);
        one.allow({"kind", "content", "signature", "source"});
        out.push_back({kind_of(one.at("kind")), one.at("content").bytes(), one.text("signature"),
                       printable(one.text("source"), 1024)});
    }
    return out;
}

}  // namespace berth::trust
