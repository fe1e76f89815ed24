#include "hooks/cdi_native.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

/// What stands behind `"kind":` or `kind:`, up to a quote, comma or end of line.
std::string value_behind(std::string_view rest) {
    size_t start = rest.find_first_not_of("\"' \t");
    if (start == rest.npos || rest[start] != ':') return {};
    start = rest.find_first_not_of("\"' \t\r\n", start + 1);
    if (start == rest.npos) return {};
    return std::string(rest.substr(start, rest.find_first_of("\"', \t\r\n}#", start) - start));
}

bool has_specification(const Host& host, const plan::Site& site, std::string_view kind) {
    for (const std::string& folder : site.devices.cdi_folders)
        for (const std::string& name : host.list(folder))
            if (name.ends_with(".json") || name.ends_with(".yaml"))
                if (kind_in(host.read(cat(folder, "/", name)).value_or("")) == kind) return true;
    return false;
}

/// The names of the maker's kind, without it. None on a node where it has nothing to give.
std::vector<std::string> native_devices(const DeviceMaker& maker, const Host& host, const plan::Site& site,
                                        const std::vector<std::string>& names, const std::vector<std::string>& job) {
    std::vector<std::string> out;
    bool off = std::ranges::find(site.devices.disabled, maker.vendor) != site.devices.disabled.end();
    if (!*maker.cdi_kind || !*maker.cdi_variable || off) return out;
    std::string start = cat(maker.cdi_kind, "=");
    for (const std::string& name : names)
        if (name.starts_with(start) && name.size() > start.size()) out.push_back(name.substr(start.size()));
    bool has_some = !out.empty() && maker.grants && maker.grants(host, site, job);
    if (!has_some || has_specification(host, site, maker.cdi_kind)) out.clear();
    return out;
}

}  // namespace

std::vector<std::string> asked_cdi_names(const plan::Site& site, const std::vector<std::string>& job) {
    std::vector<std::string> names = site.devices.cdi;
    if (const char* asked = variable(job, "BERTH_DEVICES"))
        for (const std::string& part : split(asked, ','))
            if (std::string name(trimmed(part)); !name.empty()) names.push_back(name);
    return names;
}

std::string kind_in(std::string_view text) {
    constexpr std::string_view word = "kind";
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
        bool begins = at == 0 || std::string_view("\"' \t\r\n{,").find(text[at - 1]) != std::string_view::npos;
        std::string value = begins ? value_behind(text.substr(at + word.size())) : std::string();
        if (value.find('/') != std::string::npos) return value;
    }
    return {};
}

bool is_native(const Host& host, const plan::Site& site, const std::string& name, const std::vector<std::string>& job) {
    return std::ranges::any_of(device_makers(), [&](const DeviceMaker* maker) {
        return !native_devices(*maker, host, site, {name}, job).empty();
    });
}

std::optional<std::vector<std::string>> with_native_devices(const DeviceMaker& maker, const Host& host,
                                                            const plan::Site& site,
                                                            const std::vector<std::string>& image_variables,
                                                            const std::vector<std::string>& job) {
    std::vector<std::string> names = native_devices(maker, host, site, asked_cdi_names(site, job), job);
    if (names.empty()) return std::nullopt;
    const char* own = variable(job, maker.cdi_variable);
    const char* before = own ? own : variable(image_variables, maker.cdi_variable);
    std::string value(before ? trimmed(before) : std::string_view());
    if (lower(value) == "void" || lower(value) == "none") value.clear();
    for (const std::string& name : names) value += cat(value.empty() ? "" : ",", name);
    std::vector<std::string> out = job;
    std::string start = cat(maker.cdi_variable, "=");
    std::erase_if(out, [&](const std::string& text) { return text.starts_with(start); });
    out.push_back(start + value);
    return out;
}

}  // namespace berth::hooks
