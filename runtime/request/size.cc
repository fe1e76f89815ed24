#include "runtime/request/size.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

uint64_t parse_size(std::string_view text, std::string_view setting) {
    constexpr std::string_view units = "KMGT";
    std::string_view digits = trimmed(text);
    unsigned shift = 0;
    if (size_t unit = digits.empty() ? std::string_view::npos : units.find(digits.back());
        unit != std::string_view::npos) {
        shift = 10 * (static_cast<unsigned>(unit) + 1);
        digits.remove_suffix(1);
    }
    uint64_t number = 0;
    if (!parse_number(digits, UINT64_MAX >> (shift + 1), number))
        throw Error(cat(setting, setting.empty() ? "" : ": ", "'", printable(text),
                        "' is no size (write a number with K, M, G or T)"));
    return number << shift;
}

}  // namespace berth::plan
