// The seal of a layer file: its own SHA-256, appended after the squashfs image, where no reader of squashfs looks. A layer is named after the tar
// stream it was made of, so without the seal nothing could tell damage of its bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace berth::pull {

/// Appends the seal to a finished file: 128 bytes, "berth-seal sha256:<hex>", blanks, a line end. Throws SysError naming `what`.
void seal_layer(int fd, const std::string& what);

/// True when the file ends in a seal and is as it was when sealed. `advance`, when given, is told of the bytes that were read. Throws SysError when it
/// cannot be read.
bool has_good_seal(int fd, const std::string& what, const std::function<void(uint64_t bytes)>& advance = {});

}  // namespace berth::pull
