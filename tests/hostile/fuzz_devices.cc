// What hooks read: the loader's cache, texts of /proc, requirements and requests, NVML's report, CDI specifications and
// the lines made of them.
#include <stdexcept>

#include "hooks/cdi/cdi.hh"
#include "hooks/edits.hh"
#include "hooks/nvidia/driver.hh"
#include "hooks/nvidia/requirements.hh"
#include "hooks/rdma/rdma.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/loader_cache.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run_cache(std::string_view input) {
    plan::LoaderCache cache = plan::parse_loader_cache(input, "ld.so.cache");
    plan::LoaderCache again = plan::parse_loader_cache(plan::loader_cache_bytes(cache), "again");
    if (again.libraries.size() != cache.libraries.size() || again.hwcaps != cache.hwcaps)
        throw std::logic_error("a cache that is written is another one");
}

void run_proc(std::string_view input) {
    std::string text(input);
    hooks::parse_module_version(text);
    hooks::parse_majors(text);
    hooks::parse_mig_minors(text);
    hooks::parse_gpu(text);
    hooks::cuda_of_driver(text);
    hooks::normal_bus(text);
    hostile::refusing([&] { hooks::parse_nvml(text); });
}

void run_request(std::string_view input) {
    std::vector<std::string> lines = split(input, '\n');
    hostile::refusing([&] {
        hooks::NvidiaRequest request = hooks::nvidia_request(lines, {});
        for (const hooks::Requirement& requirement : request.requirements)
            hooks::judge(requirement, {"12.8", "570.86.15", "9.0", ""});
    });
    hooks::rdma_request(lines, lines);
    auto all = [](const std::vector<plan::VisibleDevice>& devices) { return std::vector<bool>(devices.size(), true); };
    hostile::refusing([&] {
        std::vector<plan::DeviceVariable> variables = {{"CUDA_VISIBLE_DEVICES", plan::DeviceVariable::Form::uuid}};
        if (lines.size() > 1) variables.push_back(plan::parse_device_variable(lines[1]));
        plan::visible_device_changes({{"nvidia", variables, {plan::parse_visible_device(lines[0])}}}, all, lines);
    });
}

void run_cdi(std::string_view input, bool yaml) {
    hooks::CdiSpec spec = hooks::parse_cdi(input, yaml, "spec");
    for (const auto& [name, edits] : spec.devices) {
        std::string lines = hooks::lines_of(edits, "CDI");
        if (!(hooks::parse_cdi_edits(lines, "lines") == edits))
            throw std::logic_error("changes that are written are others");
    }
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 6;
    if (which == 0) hostile::refusing([&] { run_cache(input); });
    if (which == 1) run_proc(input);
    if (which == 2) run_request(input);
    if (which == 3 || which == 4) hostile::refusing([&] { run_cdi(input, which == 4); });
    if (which == 5) hostile::refusing([&] { hooks::parse_cdi_edits(input, "lines"); });
}

const berth::hostile::Registration registration("devices", run);

}  // namespace
