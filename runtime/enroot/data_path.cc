#include "runtime/enroot/data_path.hh"

#include <cctype>
#include <filesystem>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/enroot/names.hh"
#include "runtime/plan/records.hh"

namespace berth::enroot {

namespace {

constexpr std::string_view program_word = "enroot-", steps_word = "path-";
constexpr uint64_t longest_value = 64 << 10;

/// FNV-1a with 64 bits: the paths are all the user's own, who gains nothing by two that are alike.
std::string hash_of(std::string_view text) {
    uint64_t hash = 14695981039346656037u;
    for (char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
    std::string out;
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(hash >> shift) & 15];
    return out;
}

/// Whether `number` stands in `text` as a number of its own.
bool has_number(std::string_view text, std::string_view number) {
    auto is_digit = [&](size_t at) { return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); };
    for (size_t at = text.find(number); at != text.npos; at = text.find(number, at + 1))
        if (!(at > 0 && is_digit(at - 1)) && !is_digit(at + number.size())) return true;
    return false;
}

}  // namespace

std::string absolute_data_path(const std::string& text, const std::string& directory) {
    if (text.empty()) return {};
    std::string out = (std::filesystem::path(directory) / text).lexically_normal().string();
    while (out.size() > 1 && out.back() == '/') out.pop_back();
    return out;
}

std::string scope_of_path(const std::string& path) { return cat(program_word, hash_of(path)); }

std::string scope_of_path_in_steps(const std::string& path) { return cat(steps_word, hash_of(path)); }

bool is_scope_of_path(std::string_view scope) {
    return scope.starts_with(program_word) || scope.starts_with(steps_word);
}

bool is_scope_of_program(std::string_view scope) { return scope == own_scope || scope.starts_with(program_word); }

uint32_t job_of_path(std::string_view path, const std::vector<std::string>& environment, uint32_t uid) {
    std::string job = value_in(environment, "SLURM_JOB_ID"), array = value_in(environment, "SLURM_ARRAY_JOB_ID"),
                task = value_in(environment, "SLURM_ARRAY_TASK_ID");
    uint64_t number = 0;
    if (!parse_number(job, UINT32_MAX, number) || number == 0) return 0;
    if (!array.empty() && has_number(path, cat(array, "_", task))) return static_cast<uint32_t>(number);
    // One task of an array has the array's number, which all its tasks may have in their path.
    if (job == array || number == uid || !has_number(path, job)) return 0;
    return static_cast<uint32_t>(number);
}

std::string data_path_text(const DataPath& path) {
    std::string out;
    plan::add_record(out, "path", path.text);
    if (path.job != 0) plan::add_record(out, "job", std::to_string(path.job));
    for (const std::string& sign : path.signs) plan::add_record(out, "sign", sign);
    return out;
}

DataPath parse_data_path(std::string_view text) {
    DataPath out;
    while (auto record = plan::take_record(text, longest_value)) {
        uint64_t number = 0;
        if (record->key == "path") out.text = record->value;
        if (record->key == "job" && parse_number(record->value, UINT32_MAX, number))
            out.job = static_cast<uint32_t>(number);
        if (record->key == "sign") out.signs.emplace_back(record->value);
    }
    return out;
}

}  // namespace berth::enroot
