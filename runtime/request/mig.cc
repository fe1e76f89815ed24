#include "runtime/request/mig.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

constexpr std::string_view decimal_digits = "0123456789";

/// Takes a number of at most three digits from the start of `text`; false when there is none.
bool take_number(std::string_view& text) {
    size_t length = std::min(text.find_first_not_of(decimal_digits), text.size());
    if (length == 0 || length > 3 || text[0] == '0') return false;
    text.remove_prefix(length);
    return true;
}

bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

/// "+me", "-me", "+me.all", "+gfx", or nothing.
bool is_attribute(std::string_view text) {
    if (text.empty()) return true;
    if (text[0] != '+' && text[0] != '-') return false;
    text.remove_prefix(1);
    return !text.empty() && text.size() <= 16 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz.") == std::string_view::npos;
}

bool is_profile(std::string_view text) {
    return take_number(text) && take(text, "g.") && take_number(text) && take(text, "gb") && is_attribute(text);
}

bool divides_an_instance(std::string_view text) { return take_number(text) && take(text, "c."); }

MigItem parse_item(std::string_view text) {
    size_t colon = text.find(':');
    std::string_view profile = text.substr(0, colon);
    if (divides_an_instance(profile))
        throw Error(cat(printable(profile), ": parts of a MIG device (1c.2g.20gb) are not made; name a whole one, as "
                                            "2g.20gb"));
    if (!is_profile(profile))
        throw Error(cat("'", printable(profile), "' is no profile of a MIG device; write one as 1g.10gb or "
                                                 "1g.10gb+me, and 1g.10gb:7 for seven of it"));
    uint64_t count = 1;
    if (colon != std::string_view::npos &&
        (!parse_number(text.substr(colon + 1), most_mig_devices, count) || count == 0))
        throw Error(cat(printable(text), ": the number after the colon has to be from 1 to ", most_mig_devices));
    return {std::string(profile), static_cast<unsigned>(count)};
}

}  // namespace

MigRequest parse_mig(std::string_view text) {
    MigRequest out;
    unsigned total = 0;
    for (const std::string& word : split(text, ',')) {
        MigItem item = parse_item(word);
        total += item.count;
        auto same = std::find_if(out.begin(), out.end(), [&](const MigItem& it) { return it.profile == item.profile; });
        if (same == out.end())
            out.push_back(item);
        else
            same->count += item.count;
        if (total > most_mig_devices)
            throw Error(cat(printable(text), ": more MIG devices than a GPU can have (", most_mig_devices, ")"));
    }
    return out;
}

std::string mig_text(const MigRequest& request) {
    std::string out;
    for (const MigItem& item : request)
        out += cat(out.empty() ? "" : ",", item.profile, item.count == 1 ? "" : cat(':', item.count));
    return out;
}

}  // namespace berth::plan
