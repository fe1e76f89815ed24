// An all-reduce of NCCL over all GPUs of the process. With one GPU it sets up everything but connections.
#include <nccl.h>

#include "cuda.cuh"

static bool good(ncclResult_t result, const char* doing) {
    if (result != ncclSuccess) std::printf("%s: %s\n", doing, ncclGetErrorString(result));
    return result == ncclSuccess;
}

int main() {
    int count = 0;
    if (!good(cudaGetDeviceCount(&count), "counting the devices")) return 1;
    std::vector<ncclComm_t> ranks(count);
    if (!good(ncclCommInitAll(ranks.data(), count, nullptr), "making the communicator")) return 1;
    std::vector<unsigned*> numbers(count);
    for (int i = 0; i < count; ++i) {
        if (!good(cudaSetDevice(i), "choosing the device")) return 1;
        if (!good(cudaMalloc(&numbers[i], numbers_size), "allocating")) return 1;
        count_up<<<64, 256>>>(numbers[i], numbers_count);
        if (!good(cudaDeviceSynchronize(), "counting")) return 1;
    }
    // The largest of each place, so that the sum stays what it is.
    ncclGroupStart();
    for (int i = 0; i < count; ++i)
        ncclAllReduce(numbers[i], numbers[i], numbers_count, ncclUint32, ncclMax, ranks[i], nullptr);
    if (!good(ncclGroupEnd(), "reducing")) return 1;
    for (int i = 0; i < count; ++i) {
        if (!good(cudaSetDevice(i), "choosing the device") || !good(cudaDeviceSynchronize(), "reducing")) return 1;
        std::printf("%s %s\n", uuid_of(i).c_str(), adds_up(numbers[i]) ? "right" : "WRONG");
        ncclCommDestroy(ranks[i]);
    }
    return 0;
}
