// Lists the GPUs that the CUDA runtime finds, a line each with its UUID, after each has added up numbers.
#include "cuda.cuh"

static bool sums(int device) {
    std::vector<unsigned> numbers(numbers_count);
    for (unsigned i = 0; i < numbers_count; ++i) numbers[i] = i;
    unsigned* on_device = nullptr;
    if (!good(cudaSetDevice(device), "choosing the device")) return false;
    if (!good(cudaMalloc(&on_device, numbers_size), "allocating")) return false;
    if (!good(cudaMemcpy(on_device, numbers.data(), numbers_size, cudaMemcpyHostToDevice), "copying to the device"))
        return false;
    bool right = adds_up(on_device);
    cudaFree(on_device);
    return right;
}

int main() {
    int count = 0;
    if (!good(cudaGetDeviceCount(&count), "counting the devices")) return 1;
    for (int device = 0; device < count; ++device)
        std::printf("%s %s\n", uuid_of(device).c_str(), sums(device) ? "right" : "WRONG");
    return 0;
}
