#include "runtime/request/expand.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

/// What stands for "NAME", "NAME:-INSTEAD" and the like. With the colon, an empty variable counts as one not set.
std::string value_inside(std::string_view inside, const VariableLookup& value_of) {
    std::string name(inside.substr(0, inside.find_first_of(":-+")));
    std::string_view rest = inside.substr(name.size());
    bool colon = rest.starts_with(':');
    if (colon) rest.remove_prefix(1);
    bool known = rest.empty() ? !colon : rest[0] == '-' || rest[0] == '+';
    if (!is_variable_name(name) || !known)
        throw Error(cat("${", printable(inside), "} names no variable; $$ stands for a dollar sign"));
    std::optional<std::string> value = value_of(name);
    bool counts = value && !(colon && value->empty());
    if (rest.starts_with('-')) return counts ? *value : std::string(rest.substr(1));
    if (rest.starts_with('+')) return counts ? std::string(rest.substr(1)) : std::string();
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
