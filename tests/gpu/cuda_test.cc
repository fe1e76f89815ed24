// Programs of CUDA in containers on a real GPU. As an ordinary user.
#ifdef BERTH_NVCC
#include "runtime/base/text.hh"
#include "tests/gpu/root.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::gpu_test;

namespace {

const std::vector<std::string> all_gpus{"NVIDIA_VISIBLE_DEVICES=all"};

/// "GPU-... right" of each.
std::string right(const std::vector<Gpu>& gpus) {
    std::string out;
    for (const Gpu& gpu : gpus) out += gpu.uuid + " right\n";
    return out + "|0";
}

/// Two commands at once: their output, and the code of the one that failed.
std::string both(const std::vector<std::string>& one, const std::vector<std::string>& other) {
    std::string script = "exec 2>&1; ";
    auto quoted = [](const std::vector<std::string>& command) {
        std::string out;
        for (const std::string& word : command) out += "'" + word + "' ";
        return out;
    };
    script += quoted(one) + "& first=$!; " + quoted(other) + "; second=$?; wait $first && exit $second";
    return said({"/bin/sh", "-c", script});
}

}  // namespace

TEST_CASE("gpu: a CUDA program in a container computes on the GPUs that it is given", "[gpu]") {
    Root root;
    root.take(built("gpu_sum"));
    std::vector<Gpu> gpus = open_gpus();
    REQUIRE_FALSE(gpus.empty());
    std::string all = root.run(all_gpus, {"/bin/gpu_sum"});
    INFO(all);
    CHECK(all.ends_with("|0"));
    CHECK(uuids_in(all) == uuids_of(gpus));
    CHECK(all.find("WRONG") == std::string::npos);
    std::string chosen =
        root.run({"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=" + gpus.back().uuid}, {"/bin/gpu_sum"});
    INFO(chosen);
    CHECK(chosen == gpus.back().uuid + " right\n|0");
    std::string none = root.run({"NVIDIA_VISIBLE_DEVICES=none"}, {"/bin/gpu_sum"});
    INFO(none);
    CHECK_FALSE(none.ends_with("|0"));
}

TEST_CASE("gpu: a program for older GPUs is compiled for this one", "[gpu]") {
    Root root;
    root.take(built("gpu_jit"));
    std::string computed = root.run({"NVIDIA_VISIBLE_DEVICES=all", "CUDA_CACHE_DISABLE=1"}, {"/bin/gpu_jit"});
    INFO(computed);
    CHECK(computed == right(open_gpus()));
}

TEST_CASE("gpu: a CUDA program loads the same of the driver in a container as on the node", "[gpu]") {
    Root root;
    root.take(built("gpu_sum"));
    std::string here = joined(loaded_in(said({"/usr/bin/env", "LD_DEBUG=files", built("gpu_sum")})));
    CHECK(here.find("libcuda.so.1") != std::string::npos);
    CHECK(joined(loaded_in(root.run(all_gpus, {"/bin/gpu_sum"}, {"--env", "LD_DEBUG=files"}))) == here);
}

TEST_CASE("gpu: unified memory", "[gpu]") {
    Root root;
    root.take(built("gpu_unified"));
    CHECK(root.run(all_gpus, {"/bin/gpu_unified"}) == "read by the processor: right\nread by the GPU: right\n|0");
}

TEST_CASE("gpu: memory of one task is used by another, in one container and in two", "[gpu]") {
    Root root;
    root.take(built("gpu_ipc"));
    const std::string shared = root.scratch("shared"), expected = "memory of another process: right\n|0";
    const std::vector<std::string> mount{"--mount", shared + ":/shared"};
    CHECK(root.run(all_gpus, {"sh", "-c", "gpu_ipc give /shared/one & gpu_ipc take /shared/one && wait $!"}, mount) ==
          expected);
    CHECK(both(root.words(all_gpus, {"gpu_ipc", "give", "/shared/two"}, mount),
               root.words(all_gpus, {"gpu_ipc", "take", "/shared/two"}, mount)) == expected);
}

TEST_CASE("gpu: older compatibility libraries of an image stay behind the driver's", "[gpu]") {
    const std::string compat = "/usr/local/cuda/compat/libcuda.so.1";
    Root root;
    root.take(built("gpu_sum"));
    // A library of this name that would be loaded by mistake ends the program.
    root.file("/usr/local/cuda/compat/libcuda.so.470.1.1", "no library\n");
    root.link(compat, "libcuda.so.470.1.1");
    CHECK(root.run(all_gpus, {"/bin/gpu_sum"}) == right(open_gpus()));
}

TEST_CASE("gpu: a program of the multi-process service has its pipe in a container", "[gpu]") {
    Root root;
    root.take(built("gpu_sum"));
    std::string control;
    for (const DriverFile& program :
         find_driver_files(Host(), "", driver_here().module_version, {Capability::compute}).programs)
        if (program.source.ends_with("/nvidia-cuda-mps-control")) control = program.source;
    REQUIRE_FALSE(control.empty());
    const std::string pipe = root.scratch("pipe"), log = root.scratch("log");
    const std::vector<std::string> where{"/usr/bin/env", "CUDA_MPS_PIPE_DIRECTORY=" + pipe,
                                         "CUDA_MPS_LOG_DIRECTORY=" + log};
    auto with = [&](std::vector<std::string> words) {
        words.insert(words.begin(), where.begin(), where.end());
        return said(words);
    };
    auto tell = [&](const std::string& word) {
        return with({"/bin/sh", "-c", "echo " + word + " | timeout 20 '" + control + "'"});
    };
    std::string started = with({control, "-d"});
    INFO(started);
    REQUIRE(started.ends_with("|0"));
    std::string ran = root.run({"NVIDIA_VISIBLE_DEVICES=all", "CUDA_MPS_PIPE_DIRECTORY=" + pipe}, {"/bin/gpu_sum"});
    std::string servers = tell("get_server_list");
    tell("quit");
    CHECK(ran == right(open_gpus()));
    INFO(servers);
    // One server process, which the container's program has asked for.
    CHECK(servers.find_first_of("0123456789") < servers.find('|'));
}

#ifdef BERTH_CUBLAS
TEST_CASE("gpu: cuBLAS of an image multiplies", "[gpu]") {
    Root root;
    root.take(built("gpu_blas"));
    CHECK(root.run(all_gpus, {"/bin/gpu_blas"}) == "product: right\n|0");
}
#endif

#ifdef BERTH_NCCL
TEST_CASE("gpu: NCCL of an image reduces", "[gpu]") {
    Root root;
    root.take(built("gpu_nccl"));
    CHECK(root.run(all_gpus, {"/bin/gpu_nccl"}) == right(open_gpus()));
}
#endif
#endif
