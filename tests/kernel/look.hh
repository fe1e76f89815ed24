// What a task of a kernel test sees and can do, as texts.
#pragma once
#include <initializer_list>
#include <string>

namespace berth::kernel_test {

/// The words with blanks between them. Braces make the order of their evaluation that of the text.
std::string in_order(std::initializer_list<std::string> words);

/// Replaces the content of a file in one write: "ok", "short", or the reason.
std::string write_to(const std::string& path, const std::string& text);

std::string slurp(const std::string& path);
/// "ok" or the reason of errno, for the result of a system call.
std::string verdict(long result);
/// The value of a line of /proc/self/status, from `proc`.
std::string status_line(const std::string& name, const std::string& path = "/proc/self/status");

/// The names in a directory, sorted, each with a blank behind it.
std::string names_in(const std::string& path);
/// "100644 1000:1000", or the reason why not.
std::string mode_of(const std::string& path);

}  // namespace berth::kernel_test
