// Computes by OpenCL on each GPU, whose name it prints: "NVIDIA H100 80GB HBM3: right".
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr size_t count = 1 << 16;
constexpr const char* program_text =
    "kernel void twice(global uint* n) { n[get_global_id(0)] = 2 * get_global_id(0); }";

struct Failed {
    const char* doing;
    cl_int code;
};

void must(cl_int code, const char* doing) {
    if (code != CL_SUCCESS) throw Failed{doing, code};
}

std::vector<cl_device_id> gpus() {
    cl_uint platforms_found = 0;
    must(clGetPlatformIDs(0, nullptr, &platforms_found), "counting platforms");
    std::vector<cl_platform_id> platforms(platforms_found);
    must(clGetPlatformIDs(platforms_found, platforms.data(), nullptr), "listing platforms");
    std::vector<cl_device_id> out;
    for (cl_platform_id platform : platforms) {
        cl_uint found = 0;
        if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 0, nullptr, &found) != CL_SUCCESS || !found) continue;
        std::vector<cl_device_id> some(found);
        must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, found, some.data(), nullptr), "listing GPUs");
        out.insert(out.end(), some.begin(), some.end());
    }
    return out;
}

bool computes(cl_device_id device) {
    cl_int code = 0;
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    must(code, "making a context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    must(code, "making a queue");
    const char* text = program_text;
    cl_program program = clCreateProgramWithSource(context, 1, &text, nullptr, &code);
    must(code, "making a program");
    must(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "compiling a program");
    cl_kernel kernel = clCreateKernel(program, "twice", &code);
    must(code, "making a kernel");
    std::vector<cl_uint> numbers(count);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, count * sizeof(cl_uint), nullptr, &code);
    must(code, "making a buffer");
    must(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "passing a buffer");
    must(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &count, nullptr, 0, nullptr, nullptr), "starting a kernel");
    must(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, count * sizeof(cl_uint), numbers.data(), 0, nullptr, nullptr),
         "reading a buffer");
    for (size_t i = 0; i < count; ++i)
        if (numbers[i] != 2 * i) return false;
    return true;
}

}  // namespace

int main() {
    try {
        for (cl_device_id device : gpus()) {
            char name[256] = "";
            must(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, nullptr), "asking for a name");
            std::printf("%s: %s\n", name, computes(device) ? "right" : "WRONG");
        }
    } catch (const Failed& failed) {
        std::printf("%s: OpenCL error %d\n", failed.doing, failed.code);
        return 1;
    }
    return 0;
}
