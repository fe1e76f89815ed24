#include "spank/config.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

Config parse_config(int count, char** words) try {
    return plan::parse_plugin_words({words, words + count});
} catch (const Error& error) {
    throw Error(cat("plugstack.conf: ", error.what()));
}

}  // namespace berth::spank
