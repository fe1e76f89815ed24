// What takes the bytes of a stream as they come.
#pragma once
#include <functional>
#include <string_view>

namespace berth::oci {

/// May throw, which ends the stream and comes out of whoever feeds it. The bytes are gone when it returns.
using Sink = std::function<void(std::string_view bytes)>;

}  // namespace berth::oci
