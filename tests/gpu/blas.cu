// A product of matrices by cuBLAS, whose library is the container's.
#include <cublas_v2.h>

#include "cuda.cuh"

int main() {
    constexpr int side = 512;
    // Each element of the product is the number of columns.
    std::vector<float> ones(side * side, 1.0F), product(side * side, 0.0F);
    float *a = nullptr, *b = nullptr;
    const size_t size = ones.size() * sizeof(float);
    if (!good(cudaMalloc(&a, size), "allocating") || !good(cudaMalloc(&b, size), "allocating")) return 1;
    if (!good(cudaMemcpy(a, ones.data(), size, cudaMemcpyHostToDevice), "copying")) return 1;
    cublasHandle_t handle = nullptr;
    const float one = 1.0F, zero = 0.0F;
    cublasStatus_t made = cublasCreate(&handle);
    if (made == CUBLAS_STATUS_SUCCESS)
        made = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, a, side, a, side, &zero, b, side);
    if (made != CUBLAS_STATUS_SUCCESS) {
        std::printf("multiplying: %s\n", cublasGetStatusString(made));
        return 1;
    }
    if (!good(cudaMemcpy(product.data(), b, size, cudaMemcpyDeviceToHost), "multiplying")) return 1;
    bool right = true;
    for (float element : product) right = right && element == static_cast<float>(side);
    std::printf("product: %s\n", right ? "right" : "WRONG");
    return 0;
}
