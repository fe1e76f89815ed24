#include "spank/config.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::spank {

namespace {

void set(Config& config, std::string_view key, std::string_view value) {
    std::string setting = cat("plugstack.conf: ", key, "=", printable(value));
    if (key == "helper") {
        if (!value.starts_with('/')) throw Error(setting + ": no absolute path; write helper=/usr/bin/berth");
        config.helper = value;
    } else if (key == "container_scope") {
        if (value != "global" && value != "job") throw Error(setting + ": no scope; write global or job");
        config.settings.push_back(cat("BERTH_DEFAULTS_CONTAINER_SCOPE=", value));
    } else if (key == "execute_entrypoint") {
        config.settings.push_back(
            cat("BERTH_DEFAULTS_ENTRYPOINT=",
                plan::parse_bool(value, "plugstack.conf: execute_entrypoint") ? "true" : "false"));
    } else if (key == "sbatch_support") {
        config.sbatch_support = plan::parse_bool(value, "plugstack.conf: sbatch_support");
    } else {
        throw Error(cat("plugstack.conf: spank_berth.so has no setting ", printable(key),
                        "; the settings are: helper=PATH container_scope=global|job execute_entrypoint=yes|no "
                        "sbatch_support=yes|no"));
    }
}

}  // namespace

Config parse_config(int count, char** words) {
    Config out;
    for (int i = 0; i < count; ++i) {
        std::string_view word = words[i];
        size_t equals = word.find('=');
        set(out, word.substr(0, equals),
            equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1));
    }
    return out;
}

}  // namespace berth::spank
