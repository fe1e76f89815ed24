#include "runtime/base/json_text.hh"

#include "runtime/base/text.hh"

namespace berth {

std::string json_text(std::string_view text) {
    std::string out = "\"";
    // After printable() there are no control characters and nothing but UTF-8.
    for (char c : printable(text, text.size())) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

}  // namespace berth
