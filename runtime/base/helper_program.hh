// The program `berth` as the plugin starts it.
#pragma once
#include <string>

namespace berth {

/// Throws Error when `program` is not there, is no regular file of root's, or somebody else may write to it: a site's
/// mistake with the helper's file would hand users' steps to whoever can write it.
void check_helper_program(const std::string& program);

}  // namespace berth
