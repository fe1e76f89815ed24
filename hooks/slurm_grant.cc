#include "hooks/slurm_grant.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> out;
    if (trimmed(text).empty()) return out;
    for (const std::string& word : split(text, ',')) out.emplace_back(trimmed(word));
    return out;
}

std::optional<unsigned> number_of(const std::string& word) {
    uint64_t number = 0;
    if (!parse_number(word, 1 << 20, number)) return std::nullopt;
    return static_cast<unsigned>(number);
}

/// Positions, of which SLURM_STEP_GPUS has nothing else; empty for another text.
std::vector<unsigned> positions_of(const std::string& text) {
    std::vector<unsigned> out;
    for (const std::string& word : words_of(text)) {
        auto number = number_of(word);
        if (!number) return {};
        out.push_back(*number);
    }
    return out;
}

/// True when the words' numbers can only count the step's devices.
bool count_the_step(const std::vector<std::string>& words, const std::vector<unsigned>& step) {
    bool foreign = false;
    for (const std::string& word : words)
        if (auto number = number_of(word)) {
            if (*number >= step.size()) return false;
            foreign |= std::ranges::find(step, *number) == step.end();
        }
    return foreign;
}

}  // namespace

SlurmGrant slurm_grant(const std::vector<std::string>& job, std::string_view variable) {
    using Says = SlurmGrant::Says;
    std::string told = value_in(job, variable), of_step = value_in(job, "SLURM_STEP_GPUS");
    if (told == "NoDevFiles") return {.says = Says::none, .source = cat(variable, "=", told)};
    std::vector<std::string> words = words_of(told);
    std::vector<unsigned> step = positions_of(of_step);
    if (words.empty() && step.empty()) {
        // A step that has GPUs and is not told which has their number.
        bool none = !value_in(job, "SLURM_JOB_GPUS").empty() && value_in(job, "SLURM_GPUS_ON_NODE").empty();
        return {.says = none ? Says::none : Says::nothing};
    }
    SlurmGrant out{.says = Says::devices, .source = cat(variable, "=", told)};
    out.whole = !step.empty() && (words.empty() || words.size() == step.size());
    out.relative = count_the_step(words, step);
    if (words.empty() || out.relative) out.source = cat("SLURM_STEP_GPUS=", of_step);
    if (words.empty())
        for (unsigned position : step) out.devices.push_back({"", position});
    for (size_t i = 0; i < words.size(); ++i) {
        auto number = number_of(words[i]);
        if (number)
            out.devices.push_back({"", out.relative ? step[*number] : *number});
        else
            out.devices.push_back({words[i], out.whole ? std::optional(step[i]) : std::nullopt});
    }
    return out;
}

}  // namespace berth::hooks
