// A text that nobody can guess.
#pragma once
#include <string>

namespace berth {

/// 32 hex digits. Throws SysError.
std::string random_word();

}  // namespace berth
