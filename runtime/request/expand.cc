#include "runtime/request/expand.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

/// What stands for "NAME" or "NAME:-INSTEAD".
std::string value_inside(std::string_view inside, const VariableLookup& value_of) {
    size_t colon = inside.find(":-");
    std::string name(inside.substr(0, colon));
    if (!is_variable_name(name))
        throw Error(cat("${", printable(inside), "} names no variable; $$ stands for a dollar sign"));
    std::optional<std::string> value = value_of(name);
    if (colon != inside.npos) return value && !value->empty() ? *value : std::string(inside.substr(colon + 2));
    if (!value)
        throw Error(cat("the variable ", name, " is not set; set it, or write ${", name,
                        ":-WORD} for the word to take then"));
    return *value;
}

}  // namespace

bool is_variable_name(std::string_view text) {
    try {
        return parse_env_names(text).size() == 1;
    } catch (const Error&) {
        return false;
    }
}

std::string expanded(std::string_view text, const VariableLookup& value_of) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        std::string_view rest = text.substr(at);
        if (rest.starts_with("$$")) {
            out += '$';
            at += 2;
        } else if (rest.starts_with("${")) {
            size_t end = rest.find('}');
            if (end == rest.npos) throw Error("${ is left open; $$ stands for a dollar sign");
            out += value_inside(rest.substr(2, end - 2), value_of);
            at += end + 1;
        } else {
            out += text[at++];
        }
    }
    return out;
}

}  // namespace berth::plan
