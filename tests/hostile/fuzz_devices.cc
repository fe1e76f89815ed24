// What hooks read of the node and the job: texts of /proc, NVML's report, requirements and requests; and changes as
// lines. The first byte of an input chooses.
#include "hooks/amd/amd.hh"
#include "hooks/edits.hh"
#include "hooks/nvidia/driver.hh"
#include "hooks/nvidia/files.hh"
#include "hooks/nvidia/requirements.hh"
#include "hooks/rdma/rdma.hh"
#include "runtime/base/text.hh"
#include "tests/hostile/cdi_target.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void run_proc(std::string_view input) {
    std::string text(input);
    must(hooks::parse_module_version(text).find_first_not_of("0123456789.") == std::string::npos,
         "a version has something else in it");
    hooks::parse_majors(text);
    hooks::parse_cap_minor(text);
    hooks::parse_gpu(text);
    hooks::cuda_of_driver(text);
    std::string socket = hooks::parse_imex_socket(text);
    must(socket.empty() || socket.starts_with('/'), "a socket without a place");
    for (const std::string& path : hooks::parse_library_paths(text))
        must(path.starts_with('/') && path.find("/../") == path.npos, "a library's path leads elsewhere");
    if (auto properties = hooks::parse_kfd_properties(text)) {
        must(properties->minor != 0, "a GPU without a render node");
        must(hooks::normal_bus(properties->bus) == properties->bus, "the kernel's address is not normal");
    }
    std::string bus = hooks::normal_bus(text);
    must(hooks::normal_bus(bus) == bus, "an address that is normal changes");
    hostile::refusing([&] {
        for (const hooks::NvmlGpu& gpu : hooks::parse_nvml(text).gpus)
            must(hooks::normal_bus(gpu.bus) == gpu.bus, "NVML's address is not normal");
    });
}

/// The numbers and names that are mounted must be in the text that chose them.
void check_request(const hooks::NvidiaRequest& request) {
    if (request.imex_channels)
        for (unsigned channel : request.imex_channels->numbers) must(channel < 1 << 20, "a channel out of range");
    must(request.mps_directory.find('\0') == std::string::npos, "a path has a NUL in it");
}

void run_request(std::string_view input) {
    // No variable of a process has a NUL in it.
    input = input.substr(0, input.find('\0'));
    std::vector<std::string> lines = split(input, '\n');
    hostile::refusing([&] {
        hooks::NvidiaRequest request = hooks::nvidia_request(lines, {});
        check_request(request);
        check_request(hooks::nvidia_request({}, lines));
        for (const hooks::Requirement& requirement : request.requirements)
            hooks::judge(requirement, {"12.8", "570.86.15", "9.0", ""});
    });
    hostile::refusing([&] {
        hooks::AmdNode node;
        for (unsigned i : {0, 1, 2})
            node.gpus.push_back({.bus = cat("0000:0", i, ":00.0"),
                                 .minor = 128 + i,
                                 .card = "",
                                 .access = hooks::Access::allowed,
                                 .kfd_node = 2 - i,
                                 .unique_id = 7 + i / 2,
                                 .position = i});
        hooks::AmdRequest request = hooks::amd_request(lines, lines);
        hooks::AmdChoice choice = hooks::choose_amd(node, request);
        must(hooks::visible_amd_devices(node, request, choice).size() == choice.gpus.size(), "a GPU got lost");
    });
    hooks::rdma_request(plan::RdmaMode::automatic, lines, lines);
    auto all = [](const std::vector<plan::VisibleDevice>& devices) { return std::vector<bool>(devices.size(), true); };
    hostile::refusing([&] {
        std::vector<plan::DeviceVariable> variables = {{"CUDA_VISIBLE_DEVICES", plan::DeviceVariable::Form::uuid}};
        if (lines.size() > 1) variables.push_back(plan::parse_device_variable(lines[1]));
        plan::visible_device_changes({{"nvidia", variables, {plan::parse_visible_device(lines[0])}}}, all, lines);
    });
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 3;
    if (which == 0) run_proc(input);
    if (which == 1) run_request(input);
    if (which == 2) hostile::refusing([&] { hostile::write_again(hooks::parse_cdi_edits(input, "lines")); });
}

const hostile::Registration registration("devices", run);

}  // namespace
