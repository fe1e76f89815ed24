// What stands for something else in the values of options, which no shell has expanded: ~/ for the home, %j and its
// like for the job. Variables do not: they are refused. Pure.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// Bytes of a path, as the kernel takes it.
inline constexpr size_t path_limit = 4095;

/// Throws Error with a caret when `text` has a variable ($NAME or ${) at `start` or behind it. Any other $ is a
/// character of a path like others.
void refuse_variables(std::string_view text, size_t start = 0);

/// The same for the name of an image: the login name before an @ may begin with a $ ($oauthtoken@nvcr.io).
void refuse_variables_in_image(std::string_view text);

/// Throws Error with a caret when `text` from `start` on has a %, but for %j %J %A %a %u %x %N %n and %%.
void check_signs(std::string_view text, size_t start = 0);

/// The same for what becomes a name, in which every $ is refused too.
void check_name_signs(std::string_view text, size_t start = 0);

/// What the signs stand for. Empty: nothing here.
struct Signs {
    std::string home;  ///< absolute
    std::string job, step, array_job, array_task, user, job_name, node, node_index;
};

/// Those of a job's or a user's environment (NAME=VALUE): HOME, and of Slurm's variables what they say.
Signs signs_in(const std::vector<std::string>& environment);

/// `text` with what stands for its signs. Throws Error for one that stands for nothing here, or for what has a slash or
/// control characters: a job can be called so, and no part of a name.
std::string with_signs(std::string_view text, const Signs& signs);

/// True for ~ and ~/...
bool is_below_home(std::string_view path);

/// `path` with the home for a ~ at its start. Throws Error when there is no home, or when it becomes longer than a path
/// can be.
std::string with_home(const std::string& path, const std::string& home);

/// The error line for ~NAME, another user's home.
std::string other_home_mistake(std::string_view path);

}  // namespace berth::plan
