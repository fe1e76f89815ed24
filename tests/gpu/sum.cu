// Lists the GPUs that the CUDA runtime finds, a line each with its UUID, after each has added up numbers; the runtime
// is linked in, the driver's library is the container's.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

__global__ void add_up(const unsigned* numbers, unsigned count, unsigned long long* sum) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(sum, static_cast<unsigned long long>(numbers[i]));
}

static bool good(cudaError_t result, const char* doing) {
    if (result != cudaSuccess) std::printf("%s: %s\n", doing, cudaGetErrorString(result));
    return result == cudaSuccess;
}

static bool sums(int device) {
    constexpr unsigned count = 1 << 20;
    std::vector<unsigned> numbers(count);
    for (unsigned i = 0; i < count; ++i) numbers[i] = i;
    unsigned* on_device = nullptr;
    unsigned long long *sum_on_device = nullptr, sum = 0;
    constexpr unsigned size = count * sizeof(unsigned);
    if (!good(cudaSetDevice(device), "choosing the device")) return false;
    if (!good(cudaMalloc(&on_device, size), "allocating")) return false;
    if (!good(cudaMalloc(&sum_on_device, sizeof sum), "allocating")) return false;
    if (!good(cudaMemset(sum_on_device, 0, sizeof sum), "clearing")) return false;
    if (!good(cudaMemcpy(on_device, numbers.data(), size, cudaMemcpyHostToDevice), "copying to the device"))
        return false;
    add_up<<<64, 256>>>(on_device, count, sum_on_device);
    if (!good(cudaMemcpy(&sum, sum_on_device, sizeof sum, cudaMemcpyDeviceToHost), "adding up")) return false;
    cudaFree(on_device);
    cudaFree(sum_on_device);
    return sum == static_cast<unsigned long long>(count) * (count - 1) / 2;
}

int main() {
    int count = 0;
    if (!good(cudaGetDeviceCount(&count), "counting the devices")) return 1;
    for (int device = 0; device < count; ++device) {
        cudaDeviceProp about{};
        if (!good(cudaGetDeviceProperties(&about, device), "asking for properties")) return 1;
        std::printf("GPU-");
        for (int i = 0; i < 16; ++i)
            std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(about.uuid.bytes[i]));
        std::printf(" %s\n", sums(device) ? "right" : "WRONG");
    }
    return 0;
}
