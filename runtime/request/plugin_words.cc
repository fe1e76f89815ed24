#include "runtime/request/plugin_words.hh"

#include <algorithm>
#include <iterator>

#include "runtime/base/error.hh"
#include "runtime/base/nearest.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

/// Bytes of "4M", "512K", "1G" or a number.
uint64_t parse_bytes(std::string_view text, const std::string& setting) {
    constexpr std::string_view units = "KMG";
    size_t unit = text.empty() ? units.npos : units.find(text.back());
    unsigned shift = unit == units.npos ? 0 : 10 * (static_cast<unsigned>(unit) + 1);
    uint64_t number = 0;
    if (!parse_number(text.substr(0, text.size() - (shift != 0)), UINT64_MAX >> (shift + 1), number))
        throw Error(setting + ": no size; write a number with K, M or G, or 0 for no tmpfs");
    return number << shift;
}

/// The kernel takes 0 for no limit; with fewer than these no step could start.
uint64_t parse_inodes(std::string_view text, const std::string& setting) {
    uint64_t number = 0;
    if (!parse_number(text, UINT32_MAX, number) || number < 16)
        throw Error(setting + ": no number of inodes from 16 on");
    return number;
}

/// Words of Pyxis 0.24 (its config.c) for which Berth has no use: what they are for is done in another way.
bool has_no_effect(std::string_view key) {
    constexpr std::string_view keys[] = {"runtime_path", "importer", "use_squashfuse", "use_enroot_load"};
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

void set(PluginSettings& config, std::string_view key, std::string_view value) {
    std::string setting = cat(key, "=", printable(value));
    if (key == "helper") {
        if (!value.starts_with('/')) throw Error(setting + ": no absolute path; write helper=/usr/bin/berth");
        config.helper = value;
    } else if (key == "run_size") {
        config.run.bytes = parse_bytes(value, setting);
    } else if (key == "run_inodes") {
        config.run.inodes = parse_inodes(value, setting);
    } else if (key == "user_folders") {
        if (!value.empty() && !value.starts_with('/'))
            throw Error(setting + ": no absolute path; write user_folders=/var/lib/berth, or user_folders= for none");
        config.user_folders = value;
    } else if (key == "container_scope") {
        if (value != "global" && value != "job") throw Error(setting + ": no scope; write global or job");
        config.settings.push_back(cat("BERTH_DEFAULTS_CONTAINER_SCOPE=", value));
    } else if (key == "execute_entrypoint") {
        config.settings.push_back(
            cat("BERTH_DEFAULTS_ENTRYPOINT=", parse_bool(value, "execute_entrypoint") ? "true" : "false"));
    } else if (key == "sbatch_support") {
        config.sbatch_support = parse_bool(value, "sbatch_support");
    } else if (has_no_effect(key)) {
        config.without_effect += cat(config.without_effect.empty() ? "" : " ", key, "=", printable(value));
    } else {
        static const std::vector<std::string> keys = {"helper",       "run_size",        "run_inodes",
                                                      "user_folders", "container_scope", "execute_entrypoint",
                                                      "sbatch_support"};
        throw Error(cat("spank_berth.so has no setting ", printable(key),
                        "; the settings are: helper=PATH run_size=SIZE run_inodes=NUMBER "
                        "user_folders=PATH container_scope=global|job execute_entrypoint=yes|no "
                        "sbatch_support=yes|no", meant(key, keys)));
    }
}

}  // namespace

PluginSettings parse_plugin_words(const std::vector<std::string>& words) {
    PluginSettings out;
    for (std::string_view word : words) {
        size_t equals = word.find('=');
        set(out, word.substr(0, equals),
            equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1));
    }
    return out;
}

}  // namespace berth::plan
