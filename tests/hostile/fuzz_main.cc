// The entry point that libFuzzer calls. `make fuzz` links it with one target.
#include <cstdint>

#include "tests/hostile/target.hh"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    berth::hostile::targets().front().run({reinterpret_cast<const char*>(data), size});
    return 0;
}
