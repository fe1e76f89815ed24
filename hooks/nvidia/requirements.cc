#include "hooks/nvidia/requirements.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

struct Condition {
    std::string property, comparison, value;
};

Condition parse_condition(const std::string& text, const std::string& what) {
    size_t start = text.find_first_of("=!<>");
    if (start == std::string::npos || start == 0)
        throw Error(cat(what, ": '", printable(text), "' is no condition such as cuda>=12.4"));
    size_t end = text.find_first_not_of("=!<>", start);
    Condition out{text.substr(0, start), text.substr(start, end == std::string::npos ? end : end - start),
                  end == std::string::npos ? "" : text.substr(end)};
    static const std::vector<std::string> comparisons = {"=", "!=", "<", "<=", ">", ">="};
    if (std::find(comparisons.begin(), comparisons.end(), out.comparison) == comparisons.end() || out.value.empty())
        throw Error(cat(what, ": '", printable(text), "' is no condition such as cuda>=12.4"));
    return out;
}

const std::string& property_of(const GpuProperties& gpu, const Condition& condition, const std::string& what) {
    if (condition.property == "cuda") return gpu.cuda;
    if (condition.property == "driver") return gpu.driver;
    if (condition.property == "arch") return gpu.arch;
    if (condition.property == "brand") return gpu.brand;
    throw Error(cat(what, ": '", printable(condition.property),
                    "' is none of cuda, driver, arch, brand; NVIDIA_DISABLE_REQUIRE=1 turns the check off"));
}

bool holds(int order, const std::string& comparison) {
    if (comparison == "=") return order == 0;
    if (comparison == "!=") return order != 0;
    if (comparison == "<") return order < 0;
    if (comparison == "<=") return order <= 0;
    return comparison == ">" ? order > 0 : order >= 0;
}

Verdict judge_condition(const Condition& condition, const GpuProperties& gpu, const std::string& what) {
    const std::string& has = property_of(gpu, condition, what);
    bool brand = condition.property == "brand";
    if (brand && condition.comparison != "=" && condition.comparison != "!=")
        throw Error(cat(what, ": a brand can be compared by = and != only"));
    if (!brand) compare_versions(condition.value, "0", what);
    if (has.empty()) return Verdict::unknown;
    int order = brand ? lower(has).compare(lower(condition.value)) : compare_versions(has, condition.value, what);
    return holds(order, condition.comparison) ? Verdict::fulfilled : Verdict::refused;
}

/// All conditions of one alternative.
Verdict judge_alternative(const std::string& text, const GpuProperties& gpu, const std::string& what) {
    Verdict out = Verdict::fulfilled;
    for (const std::string& part : split(text, ',')) {
        if (part.empty()) continue;
        Verdict one = judge_condition(parse_condition(part, what), gpu, what);
        if (one == Verdict::refused || out == Verdict::refused)
            out = Verdict::refused;
        else if (one == Verdict::unknown)
            out = one;
    }
    return out;
}

std::vector<uint64_t> numbers_of(const std::string& version, const std::string& what) {
    std::vector<uint64_t> out;
    for (const std::string& part : split(version, '.')) {
        uint64_t number = 0;
        if (!parse_number(part, UINT32_MAX, number))
            throw Error(cat(what, ": '", printable(version), "' is no version"));
        out.push_back(number);
    }
    while (!out.empty() && out.back() == 0) out.pop_back();
    return out;
}

}  // namespace

int compare_versions(const std::string& one, const std::string& other, const std::string& what) {
    std::vector<uint64_t> left = numbers_of(one, what), right = numbers_of(other, what);
    if (left == right) return 0;
    return left < right ? -1 : 1;
}

Verdict judge(const Requirement& requirement, const GpuProperties& gpu) {
    std::string what = "NVIDIA_REQUIRE_" + printable(requirement.name);
    Verdict out = Verdict::refused;
    bool any = false;
    for (const std::string& text : split(requirement.text, ' ')) {
        if (trimmed(text).empty()) continue;
        any = true;
        Verdict one = judge_alternative(std::string(trimmed(text)), gpu, what);
        if (one == Verdict::fulfilled || out == Verdict::fulfilled)
            out = Verdict::fulfilled;
        else if (one == Verdict::unknown)
            out = one;
    }
    return any ? out : Verdict::fulfilled;
}

}  // namespace berth::hooks
