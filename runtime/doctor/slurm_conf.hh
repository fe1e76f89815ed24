// slurm.conf and cgroup.conf as Slurm reads them (src/common/parse_config.c): blanks around "=", values in quotes,
// lines that go on after a backslash, and "include FILE".
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

struct SlurmSetting {
    std::string key, value;  ///< the key as the file has it; Slurm takes it in upper and lower case alike
};

/// All that `text` sets, in its order. `included` is asked for the text of a file that an include line names; empty
/// when there is none.
std::vector<SlurmSetting> parse_slurm_conf(std::string_view text,
                                           const std::function<std::string(const std::string&)>& included);

/// What `file` and those that it includes set. Included files that cannot be read are passed over. Throws Error.
std::vector<SlurmSetting> read_slurm_conf(const std::string& file);

/// The value of a key, which is in lower case: that of its last line, as Slurm takes it. Empty: it is not set.
std::string slurm_value(const std::vector<SlurmSetting>& settings, std::string_view key);

}  // namespace berth
