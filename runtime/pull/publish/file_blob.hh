// Files that become blobs of a registry.
#pragma once
#include <string>

#include "runtime/oci/descriptor.hh"
#include "runtime/oci/sink.hh"

namespace berth::pull {

/// The bytes of a file from its start to its end, as it is long now. Throws SysError, also where it became shorter.
void read_through(int fd, const std::string& what, const oci::Sink& sink);

/// The file as a blob of that type. Throws SysError.
oci::Descriptor descriptor_of(int fd, const std::string& type, const std::string& what);

}  // namespace berth::pull
