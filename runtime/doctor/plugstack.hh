// plugstack.conf, in which a line for each plugin has Slurm load it, and the files that it includes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The file name of berth's plugin.
inline constexpr const char* plugin_name = "spank_berth.so";

/// A line that loads a plugin.
struct PlugstackLine {
    std::string file;    ///< that has the line; empty: there is none
    std::string plugin;  ///< the plugin as the line names it
    std::vector<std::string> words = {};  ///< what follows the plugin's name
};

/// Why no srun starts, or no step gets a container, by a line that loads Berth's plugin: words that the plugin refuses,
/// or a helper that it does. Empty: neither.
std::string problem_of_line(const PlugstackLine& line);

/// Where Slurm's files may lie: the folder of SLURM_CONF, and those of the distributions.
std::vector<std::string> slurm_folders();

/// The first of them that has a slurm.conf, else the one that packages use.
std::string folder_of_slurm();

/// What plugstack.conf is there: PlugStackConfig of the folder's slurm.conf, or plugstack.conf in the folder. The file
/// may be missing.
std::string plugstack_of(const std::string& folder);

/// The first line of `file`, or of those it includes, that loads a plugin whose file name contains `name`. Files that
/// were read are added to `looked`; one that cannot be read is passed over, as Slurm passes over a missing one.
PlugstackLine find_plugstack_line(const std::string& file, std::string_view name, std::vector<std::string>& looked);

/// True when `path`, which may be missing, would be read by way of plugstack.conf.
bool would_be_included(const std::string& plugstack, const std::string& path);

/// The files that a glob pattern names, in the order of their names.
std::vector<std::string> files_matching(const std::string& pattern);

}  // namespace berth
