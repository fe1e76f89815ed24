// The words after the plugin's name in plugstack.conf, as the plugin takes them and `berth doctor` checks them. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace berth::plan {

/// Of the file system in memory that each user has in /run/berth.
struct RunLimits {
    uint64_t bytes = 4 << 20;  ///< 0: there is none, and the folders are in /run itself
    uint64_t inodes = 4096;
};

struct PluginSettings {
    std::string helper = "/usr/bin/berth";  ///< absolute path of the program `berth`
    bool sbatch_support = true;              ///< sbatch and salloc take the options as well
    RunLimits run;
    /// where root makes each user's folders; empty: nowhere
    std::string user_folders = "/var/lib/berth";
    /// BERTH_KEY=VALUE: what the words say of keys of the site file. The helper reads it: root parses no more than it
    /// must.
    std::vector<std::string> settings = {};
    /// Words of Pyxis that were accepted and do nothing, with blanks between; for slurmd's log.
    std::string without_effect = {};
};

/// Parses KEY=VALUE words: helper, run_size, run_inodes, user_folders, and of Pyxis' container_scope,
/// execute_entrypoint and sbatch_support. Those of Pyxis' words that have no meaning here are kept apart. Throws Error,
/// which does not name the file, for another key or a value that it does not take.
PluginSettings parse_plugin_words(const std::vector<std::string>& words);

}  // namespace berth::plan
