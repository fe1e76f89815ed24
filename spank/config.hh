// The words after the plugin's name in plugstack.conf, as Slurm hands them to the callbacks.
#pragma once
#include "runtime/request/plugin_words.hh"

namespace berth::spank {

using plan::RunLimits;
using Config = plan::PluginSettings;

/// Throws the Error of parse_plugin_words(), with the file's name before it.
Config parse_config(int count, char** words);

}  // namespace berth::spank
