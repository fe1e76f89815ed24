// The commands of Apptainer that are not there. Pure.
#pragma once
#include <string>
#include <string_view>

namespace berth::apptainer {

/// One line for `word` in place of a command: what to do instead.
std::string instead_of(std::string_view word);

}  // namespace berth::apptainer
