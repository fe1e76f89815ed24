// Unified memory: the GPU writes what the processor reads, and the other way round, without a copy.
#include "cuda.cuh"

int main() {
    unsigned* numbers = nullptr;
    if (!good(cudaMallocManaged(&numbers, numbers_size), "allocating unified memory")) return 1;
    count_up<<<64, 256>>>(numbers, numbers_count);
    if (!good(cudaDeviceSynchronize(), "counting on the GPU")) return 1;
    unsigned long long sum = 0;
    for (unsigned i = 0; i < numbers_count; ++i) sum += numbers[i];
    std::printf("read by the processor: %s\n", sum == numbers_sum ? "right" : "WRONG");
    for (unsigned i = 0; i < numbers_count; ++i) numbers[i] = numbers_count - 1 - i;
    std::printf("read by the GPU: %s\n", adds_up(numbers) ? "right" : "WRONG");
    return good(cudaFree(numbers), "freeing") ? 0 : 1;
}
