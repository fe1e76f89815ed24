// What the CUDA programs of these tests share. The runtime is linked in; the driver's library is the container's.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime.h>

/// Each number is its place.
__global__ void count_up(unsigned* numbers, unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) numbers[i] = i;
}

__global__ void add_up(const unsigned* numbers, unsigned count, unsigned long long* sum) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(sum, static_cast<unsigned long long>(numbers[i]));
}

constexpr unsigned numbers_count = 1 << 20, numbers_size = numbers_count * sizeof(unsigned);
constexpr unsigned long long numbers_sum = static_cast<unsigned long long>(numbers_count) * (numbers_count - 1) / 2;

/// Says what failed.
inline bool good(cudaError_t result, const char* doing) {
    if (result != cudaSuccess) std::printf("%s: %s\n", doing, cudaGetErrorString(result));
    return result == cudaSuccess;
}

/// "GPU-..." of a device; empty when it cannot be asked.
inline std::string uuid_of(int device) {
    cudaDeviceProp about{};
    if (!good(cudaGetDeviceProperties(&about, device), "asking for properties")) return {};
    std::string out = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char text[4];
        std::snprintf(text, sizeof text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      static_cast<unsigned char>(about.uuid.bytes[i]));
        out += text;
    }
    return out;
}

/// Whether numbers on the current device add up to what they should.
inline bool adds_up(const unsigned* numbers) {
    unsigned long long *sum_on_device = nullptr, sum = 0;
    if (!good(cudaMalloc(&sum_on_device, sizeof sum), "allocating")) return false;
    if (!good(cudaMemset(sum_on_device, 0, sizeof sum), "clearing")) return false;
    add_up<<<64, 256>>>(numbers, numbers_count, sum_on_device);
    if (!good(cudaMemcpy(&sum, sum_on_device, sizeof sum, cudaMemcpyDeviceToHost), "adding up")) return false;
    cudaFree(sum_on_device);
    return sum == numbers_sum;
}
