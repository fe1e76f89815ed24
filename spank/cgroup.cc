#include "spank/cgroup.hh"

#include <algorithm>
#include <vector>

#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

constexpr std::string_view leaf_name = "berth", step_leaf_prefix = "berth_", handed_over_prefix = "berth_from_";

/// A line of /proc/PID/cgroup, "4:freezer:/slurm/uid_1/job_2": see cgroups(7).
struct Line {
    std::string_view controllers;  ///< empty: version 2
    std::string_view path;
};

std::optional<Line> line_of(std::string_view text) {
    size_t first = text.find(':'), second = first == text.npos ? first : text.find(':', first + 1);
    if (second == text.npos || text.substr(second + 1, 1) != "/") return std::nullopt;
    return Line{text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

std::string joined(const std::vector<std::string>& parts, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += '/' + parts[i];
    return out;
}

std::vector<std::string> parts_of(std::string_view path) {
    return split(path.substr(1), '/');
}

/// SCOPE/JOB/step_0/slurm, or SCOPE/JOB/step_0/user/task_0.
std::optional<JobGroup> unified_group(const Line& line) {
    std::vector<std::string> parts = parts_of(line.path);
    for (size_t i = 2; i < parts.size(); ++i)
        if ((parts[i] == "slurm" || parts[i] == "user") && parts[i - 1].starts_with("step_"))
            return JobGroup{std::string(cgroup_folder), joined(parts, i - 1), joined(parts, i), true};
    return std::nullopt;
}

/// /slurm/uid_2001/job_5, or /slurm/uid_2001/job_5/step_0/...
std::optional<JobGroup> freezer_group(const Line& line) {
    std::vector<std::string> controllers = split(line.controllers, ','), parts = parts_of(line.path);
    if (std::find(controllers.begin(), controllers.end(), "freezer") == controllers.end()) return std::nullopt;
    for (size_t i = 1; i < parts.size(); ++i)
        if (parts[i].starts_with("job_") && parts[i - 1].starts_with("uid_"))
            return JobGroup{cat(cgroup_folder, '/', line.controllers), joined(parts, i + 1), {}, false};
    return std::nullopt;
}

}  // namespace

std::optional<JobGroup> job_group(std::string_view cgroups) {
    for (const std::string& text : split(cgroups, '\n')) {
        auto line = line_of(text);
        if (!line) continue;
        if (auto group = line->controllers.empty() ? unified_group(*line) : freezer_group(*line)) return group;
    }
    return std::nullopt;
}

LeafPlace leaf_of_step(const JobGroup& group, std::string_view step) {
    if (group.unified) return {group.mount, group.step, std::string(leaf_name)};
    return {group.mount, group.job, cat(step_leaf_prefix, step)};
}

LeafPlace leaf_of_job(const JobGroup& group, std::string_view step) {
    return {group.mount, group.job, group.unified ? cat(step_leaf_prefix, step) : std::string(leaf_name)};
}

std::string leaf_handed_over_by(uint32_t from) { return cat(handed_over_prefix, from); }

bool is_leaf_name(std::string_view name) {
    return name == leaf_name || name.starts_with(step_leaf_prefix);
}

bool is_name_of_jobs_leaf(std::string_view name, bool unified) {
    return unified ? name.starts_with(step_leaf_prefix) : name == leaf_name || name.starts_with(handed_over_prefix);
}

std::string tasks_of_step(const JobGroup& group) { return group.step + "/user"; }

bool is_in_leaf(std::string_view cgroups) {
    for (const std::string& text : split(cgroups, '\n'))
        if (auto line = line_of(text); line && is_leaf_name(line->path.substr(line->path.rfind('/') + 1))) return true;
    return false;
}

}  // namespace berth::spank
