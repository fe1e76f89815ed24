// Settings of Slurm's that change what containers see or how they start.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/doctor/slurm_conf.hh"

namespace berth {

/// The words of a line of plugstack.conf, which blanks and tabs separate, without its comment.
std::vector<std::string> words_of(const std::string& line);

/// What slurm.conf or cgroup.conf has of them, and what it means for containers, a line each: "PrologFlags=x11: srun
/// --x11 works in containers". Keys and words are compared without regard to case, as Slurm does it.
std::vector<std::string> settings_that_matter(const std::vector<SlurmSetting>& settings);

/// The same of namespace.yaml (namespace/linux): which namespaces of those that it gives to jobs stand in containers'
/// way.
std::vector<std::string> namespaces_that_matter(std::string_view text);

}  // namespace berth
