#include "runtime/mig/layout/job_gpus.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

constexpr size_t most_files = 256;

[[noreturn]] void refuse_files(std::string_view text) {
    throw Error(
        cat("--devices ", printable(text), ": write the GPUs' files in the order of slurmd -G, as /dev/nvidia[0-7]"));
}

/// "0-2,5" → 0, 1, 2, 5.
std::vector<uint64_t> numbers_of(std::string_view ranges, std::string_view whole) {
    std::vector<uint64_t> out;
    for (const std::string& range : split(ranges, ',')) {
        size_t dash = range.find('-');
        uint64_t first = 0, last = 0;
        if (!parse_number(range.substr(0, dash), most_files, first)) refuse_files(whole);
        last = first;
        if (dash != range.npos && (!parse_number(range.substr(dash + 1), most_files, last) || last < first))
            refuse_files(whole);
        for (uint64_t i = first; i <= last && out.size() < most_files; ++i) out.push_back(i);
    }
    return out;
}

/// Splits at the commas outside of brackets.
std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> out(1);
    bool inside = false;
    for (char letter : text) {
        if (letter == '[' || letter == ']') inside = letter == '[';
        if (letter == ',' && !inside)
            out.emplace_back();
        else
            out.back() += letter;
    }
    return out;
}

/// The digits at the end of a name.
std::string_view number_at_end(std::string_view file) {
    return file.substr(std::min(file.size(), file.find_last_not_of("0123456789") + 1));
}

}  // namespace

unsigned minor_of(const std::string& file) {
    std::string_view digits = number_at_end(file);
    uint64_t number = 0;
    if (!std::string_view(file).substr(0, file.size() - digits.size()).ends_with("/nvidia") ||
        !parse_number(digits, most_files, number))
        refuse_files(file);
    return static_cast<unsigned>(number);
}

std::vector<std::string> device_files(const std::string& text) {
    std::vector<std::string> out;
    for (const std::string& word : words_of(text)) {
        size_t open = word.find('[');
        if (open == word.npos) {
            out.push_back(word);
        } else {
            if (!word.ends_with(']')) refuse_files(text);
            for (uint64_t number : numbers_of(std::string_view(word).substr(open + 1, word.size() - open - 2), text))
                out.push_back(cat(word.substr(0, open), number));
        }
        minor_of(out.back());
        if (out.size() > most_files) refuse_files(text);
    }
    return out;
}

std::vector<std::string> files_of_job(const std::vector<std::string>& files, const std::string& job_gpus,
                                      const std::string& cuda) {
    if (job_gpus.empty()) throw Error("the job holds no GPU; ask for one, as by --gres=gpu:1");
    if (cuda.find("MIG-") != cuda.npos)
        throw Error("the job holds MIG devices that the site has made; only whole GPUs are divided for a job");
    std::vector<std::string> out;
    for (const std::string& word : split(job_gpus, ',')) {
        uint64_t index = 0;
        if (!parse_number(word, most_files, index) || index >= files.size())
            throw Error(cat("SLURM_JOB_GPUS is ", printable(job_gpus), ", but --devices has ", files.size(),
                            " files; write those of all GPUs, in the order of slurmd -G"));
        if (std::find(out.begin(), out.end(), files[index]) == out.end()) out.push_back(files[index]);
    }
    return out;
}

void require_whole_gpus(std::string_view scontrol) {
    bool gpu = false;
    // A user may have the words in the name of his job, so that they count wherever they stand: more of them refuse.
    for (size_t at = scontrol.find("GRES="); at != scontrol.npos; at = scontrol.find("GRES=", at + 1)) {
        std::string_view value = scontrol.substr(at + 5);
        value = value.substr(0, value.find_first_of(" \n"));
        gpu = gpu || value.find("gpu") != value.npos;
        for (std::string_view part : {"shard", "mps"})
            if (value.find(part) != value.npos)
                throw Error(cat("the job holds a part of a GPU (", part,
                                "), which others may have the rest of; ask for "
                                "whole GPUs"));
    }
    if (!gpu) throw Error("Slurm does not say that the job holds GPUs; ask for some, as by --gres=gpu:1");
}

}  // namespace berth::mig
