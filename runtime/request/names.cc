#include "runtime/request/names.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/values.hh"

namespace berth::plan {

namespace {

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void check_container_name(std::string_view name) {
    // It is a file's name, behind the scope. One that looks like an option is refused, other than by Pyxis.
    constexpr size_t longest = 200;
    bool good = !name.empty() && name.size() <= longest && name != "." && name != ".." && name[0] != '-' &&
                name.find_first_of(":/") == name.npos && printable(name, longest) == name;
    if (!good)
        throw Error(cat("container name '", printable(name, 80), "': use 1 to ", longest,
                        " bytes of printable characters without : and /, no - at the start, and not . or .. alone"));
}

ContainerName parse_container_name(std::string_view text) {
    size_t colon = text.find(':');
    ContainerName out{std::string(text.substr(0, colon))};
    check_name_signs(out.name);
    check_container_name(out.name);
    std::string_view mode = colon == text.npos ? "auto" : text.substr(colon + 1);
    if (mode == "create")
        out.mode = NameMode::create;
    else if (mode == "exec")
        out.mode = NameMode::exec;
    else if (mode == "no_exec")
        out.mode = NameMode::no_exec;
    else if (mode != "auto" && !mode.empty())
        throw Error(
            with_caret(cat("container name: the mode after the colon must be auto, create, exec or no_exec, not '",
                           printable(mode), "'"),
                       text, colon + 1));
    return out;
}

std::vector<std::string> parse_env_names(std::string_view text) {
    std::vector<std::string> names;
    size_t position = 0;
    for (std::string& name : split(text, ',')) {
        bool good = !name.empty() && letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [](char c) { return letter(c) || digit(c); });
        if (!good) {
            std::string hint = name.find('=') != std::string::npos
                                   ? " (give the name alone: its value is taken from your environment)"
                                   : "";
            throw Error(
                with_caret(cat("'", printable(name), "' is no variable name", hint), text, position));
        }
        position += name.size() + 1;
        names.push_back(std::move(name));
    }
    return names;
}

std::string parse_environment_name(std::string_view text) {
    if (text.empty()) throw Error(with_caret("it is empty; write a name or the path of a file", text, 0));
    if (text.size() > path_limit || printable(text, path_limit) != text)
        throw Error(cat("'", printable(text), "': it is longer than ", path_limit,
                        " bytes or holds control characters"));
    refuse_variables(text);
    if (text.starts_with('~') && !is_below_home(text)) throw Error(with_caret(other_home_mistake(text), text, 0));
    if (is_environment_path(text)) return std::string(text);
    for (const std::string& part : split(text, '/'))
        if (part.empty() || part == "..")
            throw Error(cat("'", printable(text), "' is no name of an environment; write the path of a file as ./",
                            printable(text), ".toml"));
    return std::string(text);
}

bool is_environment_path(std::string_view text) {
    return text.starts_with('.') || text.starts_with('/') || is_below_home(text) || text.ends_with(".toml");
}

std::string parse_workdir(std::string_view text) {
    auto fail = [&](const char* why) { throw Error(with_caret(why, text, 0)); };
    if (text.empty()) fail("it is empty; write a path in the container");
    if (text.find('\0') != std::string_view::npos || text.size() > path_limit)
        fail("it holds a NUL byte or is longer than 4095 bytes");
    refuse_variables(text);
    if (text[0] == '~') fail("a ~ is not expanded here; write the path of the directory as it is in the container");
    std::string path = normalised(text);
    // A descriptor or another process's directory can lead out of the container.
    if (path == "/proc" || path.starts_with("/proc/")) fail("a directory below /proc can lead out of the container");
    return path;
}

std::string parse_save_path(std::string_view text) {
    auto fail = [&](const char* why) { throw Error(with_caret(why, text, text.size())); };
    if (text.empty()) fail("it needs the path of a file");
    std::string_view last = text.substr(text.rfind('/') + 1);
    if (last.empty() || last == "." || last == "..") fail("this is a directory; write the path of a file");
    if (text.find('\0') != std::string_view::npos || text.size() > path_limit)
        fail("it holds a NUL byte or is longer than 4095 bytes");
    if (text[0] == '~' && !is_below_home(text)) throw Error(with_caret(other_home_mistake(text), text, 0));
    refuse_variables(text);
    check_signs(text);
    check_name_signs(text, text.size() - last.size());
    return std::string(text);
}

std::string expanded_save_path(const std::string& path, const Signs& signs) {
    std::string out = with_home(path, signs.home);
    // The home may have a % in it, which is its own.
    size_t home = out.size() - (is_below_home(path) ? path.size() - 1 : path.size());
    out = cat(out.substr(0, home), with_signs(out.substr(home), signs));
    if (out.size() > path_limit)
        throw Error(cat("'", printable(path), "': with what its signs stand for it is longer than ", path_limit,
                        " bytes"));
    return out;
}

bool saves_on_each_node(std::string_view path) {
    for (size_t at = path.find('%'); at != path.npos && at + 1 < path.size(); at = path.find('%', at + 2))
        if (path[at + 1] == 'N' || path[at + 1] == 'n') return true;
    return false;
}

bool is_step_name(std::string_view name) {
    auto number = [](std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), digit); };
    size_t dot = name.find('.');
    if (dot == name.npos || !number(name.substr(0, dot))) return false;
    std::string_view step = name.substr(dot + 1);
    return number(step) || step == "batch" || step == "interactive";
}

bool parse_bool(std::string_view text, std::string_view setting) {
    std::string word = lower(text);
    for (const char* yes : {"1", "true", "yes", "y", "on"})
        if (word == yes) return true;
    for (const char* no : {"0", "false", "no", "n", "off"})
        if (word == no) return false;
    throw Error(cat(setting, "=", printable(text), ": write 1, true, yes or on, or 0, false, no or off"));
}

}  // namespace berth::plan
