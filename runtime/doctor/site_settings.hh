// Settings of Slurm's that change what containers see or how they start.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The words of a line of slurm.conf ("Key=Value") or plugstack.conf, without its comment.
std::vector<std::string> words_of(const std::string& line);

/// What slurm.conf or cgroup.conf, whose text is given, has of them, and what it means for containers, a line each:
/// "PrologFlags=x11: srun --x11 works in containers". Keys and words are compared without regard to case, as Slurm does
/// it; a text that is no such file gives none.
std::vector<std::string> settings_that_matter(std::string_view text);

/// The same of namespace.yaml (namespace/linux): which namespaces of those that it gives to jobs stand in containers'
/// way.
std::vector<std::string> namespaces_that_matter(std::string_view text);

}  // namespace berth
