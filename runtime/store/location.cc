#include "runtime/store/location.hh"

#include <cstdint>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

constexpr std::string_view shared_word = "shared ", offered_line = "offered";

/// With a slash at its end the kernel would follow a symlink in spite of O_NOFOLLOW.
std::string without_slashes(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

/// "OWNER PATH", the owner `-` for none.
void add_shared(Location& out, const std::string& line) {
    size_t blank = line.find(' ');
    uint64_t uid = 0;
    std::string owner = line.substr(0, blank);
    if (blank == line.npos || (owner != "-" && !parse_number(owner, UINT32_MAX, uid)))
        throw Error(cat("store: \"", printable(line), "\" does not say whose a shared store is"));
    if (owner != "-") out.shared_owner = static_cast<uid_t>(uid);
    out.shared.push_back(line.substr(blank + 1));
}

}  // namespace

// A line for each shared store, and the path as the rest: it may have any byte but NUL.
std::string Location::text() const {
    std::string out, owner = shared_owner ? std::to_string(*shared_owner) : "-";
    for (const std::string& one : shared) out += cat(shared_word, owner, " ", one, "\n");
    if (offered) out += cat(offered_line, "\n");
    return out + path;
}

Location parse_location(const std::string& text) {
    Location out;
    size_t at = 0;
    for (size_t end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
        std::string line = text.substr(at, end - at);
        if (line == offered_line)
            out.offered = true;
        else if (line.starts_with(shared_word))
            add_shared(out, line.substr(shared_word.size()));
        else
            break;
    }
    out.path = without_slashes(text.substr(at));
    return out;
}

Location make_location(const std::string& path, uid_t uid, const std::vector<std::string>& shared,
                       std::optional<uid_t> shared_owner) {
    Location out{without_slashes(path), {}, shared_owner};
    for (const std::string& one : shared)
        if (without_slashes(one) == out.path)
            out.offered = shared_owner == uid;
        else
            out.shared.push_back(without_slashes(one));
    // What is offered is whole in itself: a store on each node, filled from one of the site, would stay empty else.
    if (out.offered) out.shared.clear();
    return out;
}

}  // namespace berth::store
