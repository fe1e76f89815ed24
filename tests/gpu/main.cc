// The runner of the checks on a real GPU: says in one line when there is none.
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <filesystem>

#include "tests/catch.hh"

int main(int argc, char** argv) {
    const char* gpus = "/proc/driver/nvidia/gpus";
    std::error_code code;
    if (!std::filesystem::is_directory(gpus, code) || std::filesystem::is_empty(gpus, code)) {
        const char* must = std::getenv("BERTH_MUST_RUN");
        bool failed = must != nullptr && std::string(must) == "1";
        std::fprintf(stderr, "tests/gpu: no NVIDIA GPU here (%s has none)%s\n", gpus,
                     failed ? ", and BERTH_MUST_RUN=1 demands one" : "; nothing was tested");
        return failed ? 1 : 0;
    }
    return Catch::Session().run(argc, argv);
}
