#include "runtime/oci/json_strict.hh"

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

void check_depth(std::string_view text, const std::string& what) {
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > json_depth_limit)
                throw Error(cat(what, ": its JSON is nested deeper than ", json_depth_limit, " levels"));
        } else if ((c == '}' || c == ']') && depth > 0) {
            --depth;
        }
    }
}

/// Parser callback that remembers the keys of the objects it is in.
class KeyCheck {
  public:
    explicit KeyCheck(const std::string& what) : what_(what) {}

    bool operator()(json::parse_event_t event, const json& value) {
        if (event == json::parse_event_t::object_start) keys_.emplace_back();
        if (event == json::parse_event_t::object_end) keys_.pop_back();
        if (event == json::parse_event_t::key && !keys_.back().insert(value.get<std::string>()).second)
            throw Error(
                cat(what_, ": its JSON has the key \"", printable(value.get<std::string>()), "\" twice in one object"));
        return true;
    }

  private:
    const std::string& what_;
    std::vector<std::set<std::string>> keys_;
};

const json* member(const json& object, const char* name) {
    auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void wrong_type(const std::string& what, const char* name, const char* wanted) {
    throw Error(cat(what, ": \"", name, "\" is not ", wanted));
}

std::string text_of(const json& value, const char* name, const std::string& what) {
    auto text = value.get<std::string>();
    if (text.find('\0') != text.npos) throw Error(cat(what, ": \"", name, "\" holds a NUL byte"));
    return text;
}

}  // namespace

json parse_json(std::string_view text, const std::string& what) {
    check_depth(text, what);
    KeyCheck check(what);
    try {
        return json::parse(text.begin(), text.end(),
                           [&](int, json::parse_event_t event, json& value) { return check(event, value); });
    } catch (const json::exception& problem) {
        // The library's own words hold pieces of the input.
        throw Error(cat(what, ": not valid JSON: ", printable(problem.what(), 200)));
    }
}

std::optional<std::string> string_member(const json& object, const char* name, const std::string& what) {
    const json* value = member(object, name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) wrong_type(what, name, "a string");
    return text_of(*value, name, what);
}

std::vector<std::string> strings_member(const json& object, const char* name, const std::string& what) {
    std::vector<std::string> out;
    const json* list = array_member(object, name, what);
    if (list == nullptr) return out;
    for (const json& value : *list) {
        if (!value.is_string()) wrong_type(what, name, "a list of strings");
        out.push_back(text_of(value, name, what));
    }
    return out;
}

const json* object_member(const json& object, const char* name, const std::string& what) {
    const json* value = member(object, name);
    if (value != nullptr && !value->is_object()) wrong_type(what, name, "an object");
    return value;
}

const json* array_member(const json& object, const char* name, const std::string& what) {
    const json* value = member(object, name);
    if (value != nullptr && !value->is_array()) wrong_type(what, name, "a list");
    return value;
}

}  // namespace berth::oci
