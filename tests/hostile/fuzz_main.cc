// The entry points that libFuzzer calls. `make fuzz` links one program of all targets; by which of its names it is
// called says which one runs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "tests/hostile/target.hh"

namespace {

using berth::hostile::Target;

/// Of the processor, so that it means the same on a busy machine: some hundred times what honest inputs of this length
/// take with the sanitizers.
constexpr int64_t input_limit_ms = 10'000;

const Target* chosen = nullptr;

int64_t processor_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
    std::string_view name = (*argv)[0];
    name = name.substr(name.rfind('/') + 1);
    for (const Target& target : berth::hostile::targets())
        if (target.name == name) chosen = &target;
    if (chosen) return 0;
    std::fprintf(stderr, "fuzz: there is no target '%s'; see tests/hostile/README.md\n", (*argv)[0]);
    std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    int64_t start = processor_ms();
    chosen->run({reinterpret_cast<const char*>(data), size});
    if (int64_t took = processor_ms() - start; took > input_limit_ms) {
        std::fprintf(stderr, "fuzz: an input of %zu bytes took %lld ms of the processor\n", size,
                     static_cast<long long>(took));
        std::abort();
    }
    return 0;
}
