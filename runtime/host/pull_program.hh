// Where the program berth-pull is, and the arguments by which it gets this process's settings.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/site.hh"

namespace berth {

/// Where the program berth-pull is: beside this program, or in ../libexec/berth from there.
std::string pull_program();

/// The arguments that lead berth-pull to the site file, when there is one.
std::vector<std::string> site_arguments();

/// The arguments for berth-pull that follow from the site file; `store` is the location of one.
std::vector<std::string> pull_arguments(const plan::Site& site, const std::string& store);

}  // namespace berth
