// The words after the plugin's name in plugstack.conf.
#pragma once
#include <string>
#include <vector>

namespace berth::spank {

struct Config {
    std::string helper = "/usr/bin/berth";  ///< absolute path of the program `berth`
    bool sbatch_support = true;              ///< sbatch and salloc take the options as well
    /// BERTH_KEY=VALUE: what the words say of keys of the site file. The helper reads it: root parses no more than it
    /// must.
    std::vector<std::string> settings = {};
};

/// Parses KEY=VALUE words: helper, and of Pyxis' container_scope, execute_entrypoint and sbatch_support. Throws Error
/// for another key or a value that it does not take.
Config parse_config(int count, char** words);

}  // namespace berth::spank
