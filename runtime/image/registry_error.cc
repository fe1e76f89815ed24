#include "runtime/image/registry_error.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/image/json_strict.hh"

namespace berth::image {

namespace {

constexpr size_t detail_limit = 160;

std::string message_in(const std::string& body) {
    try {
        nlohmann::json document = parse_json(body, "");
        const nlohmann::json* errors = document.is_object() ? array_member(document, "errors", "") : nullptr;
        if (errors == nullptr || errors->empty() || !errors->front().is_object()) return {};
        return string_member(errors->front(), "message", "").value_or("");
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

std::string error_detail(const std::string& body) {
    std::string message = message_in(body);
    return printable(trimmed(message.empty() ? std::string_view(body) : message), detail_limit);
}

std::string refusal(const HttpAnswer& answer, const std::string& what, const std::string& server) {
    std::string detail = error_detail(answer.body);
    std::string said = detail.empty() ? "" : cat(" (it says: ", detail, ")");
    switch (answer.status) {
        case 404: return cat(what, ": not found by the ", server, said, "; check the name and the tag");
        case 401:
        case 403: return cat(what, ": no access to it at the ", server, said, "; check the name, it may also need a login");
        case 429: return cat(what, ": the ", server, " limits how much may be pulled", said, "; try again later");
        default: break;
    }
    if (answer.status >= 500) return cat(what, ": fault of the ", server, ", status ", answer.status, said, "; try again later");
    return cat(what, ": unexpected status ", answer.status, " from the ", server, said);
}

void refuse(const HttpAnswer& answer, const std::string& what, const std::string& server) {
    std::string line = refusal(answer, what, server);
    if (answer.status == 429 || answer.status >= 500) throw Unreachable(line);
    throw Error(line);
}

}  // namespace berth::image
