#include "runtime/oci/registry/error.hh"

#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/registry/retry.hh"

namespace berth::oci {

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

/// "later", or the time that the server names.
std::string end_of_limit(const HttpAnswer& answer, int64_t now) {
    auto after = parse_retry_after(answer.header("retry-after"), now);
    if (!after || after->count() == 0) return "later";
    time_t end = now + after->count();
    tm parts{};
    char text[64] = "";
    if (::gmtime_r(&end, &parts) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
        return "later";
    return cat("after ", static_cast<const char*>(text));
}

}  // namespace

std::string error_detail(const std::string& body) {
    std::string message = message_in(body);
    return printable(trimmed(message.empty() ? std::string_view(body) : message), detail_limit);
}

std::string refusal(const HttpAnswer& answer, const std::string& what, const std::string& server,
                    const std::string& login, int64_t now) {
    std::string detail = error_detail(answer.body);
    std::string said = detail.empty() ? "" : cat(" (it says: ", detail, ")");
    std::string hint = login.empty() ? "check the name, it may also need a login" : login;
    switch (answer.status) {
        case 404: return cat(what, ": not found by the ", server, said, "; check the name and the tag");
        case 401:
        case 403: return cat(what, ": no access to it at the ", server, said, "; ", hint);
        case 429:
            return cat(what, ": the ", server, " limits how much may be pulled", said, "; try again ",
                       end_of_limit(answer, now));
        default: break;
    }
    if (answer.status >= 500)
        return cat(what, ": fault of the ", server, ", status ", answer.status, said, "; try again ",
                   end_of_limit(answer, now));
    return cat(what, ": unexpected status ", answer.status, " from the ", server, said);
}

bool is_passing(long status) {
    return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

void refuse_page(const HttpAnswer& answer, const std::string& what, const std::string& server) {
    std::string_view body = trimmed(answer.body);
    bool is_page = lower(answer.header("content-type")).starts_with("text/html") || body.starts_with('<');
    if (!is_page) return;
    throw Error(cat(what, ": not an answer of a registry: the ", server,
                    " sent a page of text/html (a proxy's, perhaps, or one that asks for a login): ",
                    printable(body.substr(0, body.find_first_of("\r\n")), detail_limit)));
}

void refuse(const HttpAnswer& answer, const std::string& what, const std::string& server, const std::string& login) {
    int64_t now = ::time(nullptr);
    std::string line = refusal(answer, what, server, login, now);
    if (is_passing(answer.status) || answer.status >= 500)
        throw Unreachable(line, !is_passing(answer.status), parse_retry_after(answer.header("retry-after"), now));
    throw Refused(line, answer.status);
}

}  // namespace berth::oci
