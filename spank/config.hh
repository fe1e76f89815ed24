// The words after the plugin's name in plugstack.conf.
#pragma once
#include <string>

namespace berth::spank {

struct Config {
    std::string helper = "/usr/bin/berth";  ///< absolute path of the program `berth`
};

/// Parses KEY=VALUE words. Throws Error for an unknown key or a helper that is no absolute path.
Config parse_config(int count, char** words);

}  // namespace berth::spank
