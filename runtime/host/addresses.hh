// The addresses of this machine.
#pragma once
#include <string>
#include <vector>

namespace berth {

/// Of all interfaces that are up, as texts without a zone, in the kernel's order; link-local ones are left out, since
/// they mean something on one link alone. Throws SysError.
std::vector<std::string> addresses_of_this_machine();

}  // namespace berth
