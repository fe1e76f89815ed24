// The runner of the checks on a real GPU: says in one line when there is none.
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tests/catch.hh"

namespace {

/// What has no headers or compiler where this was built (Makefile, gpu_programs).
const std::vector<const char*> not_built = {
#ifndef BERTH_NVCC
    "CUDA",
#endif
#ifndef BERTH_CUBLAS
    "cuBLAS",
#endif
#ifndef BERTH_NCCL
    "NCCL",
#endif
#ifndef BERTH_EGL
    "OpenGL ES",
#endif
#ifndef BERTH_VULKAN
    "Vulkan",
#endif
#ifndef BERTH_OPENCL
    "OpenCL",
#endif
#ifndef BERTH_VIDEO
    "decoding of video",
#endif
};

}  // namespace

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
    for (const char* program : not_built) std::printf("tests/gpu: not built here, and not tested: %s\n", program);
    return Catch::Session().run(argc, argv);
}
