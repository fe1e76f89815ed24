#include "spank/config.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

Config parse_config(int count, char** words) {
    Config out;
    for (int i = 0; i < count; ++i) {
        std::string_view word = words[i];
        size_t equals = word.find('=');
        std::string_view key = word.substr(0, equals);
        std::string_view value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
        if (key != "helper") throw Error(cat("plugstack.conf: spank_berth.so has no setting ", printable(key), "; the settings are: helper=PATH"));
        if (!value.starts_with('/')) throw Error(cat("plugstack.conf: helper=", printable(value), " is no absolute path"));
        out.helper = value;
    }
    return out;
}

}  // namespace berth::spank
