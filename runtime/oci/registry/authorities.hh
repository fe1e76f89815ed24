// The certificate authorities of this system.
#pragma once
#include <functional>
#include <string>

namespace berth::oci {

/// The PEM file of certificate authorities to verify servers with: empty for `own`, libcurl's, when that is there or
/// nothing else is. Berth may have been built on another distribution than it runs on, and each has the file somewhere
/// else. The places are those that Go's crypto/x509 knows (root_linux.go).
std::string authorities(const std::string& own, const std::function<bool(const std::string& path)>& is_there);

/// The same on this system, looked for once.
const std::string& authorities_here();

}  // namespace berth::oci
