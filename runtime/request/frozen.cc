#include "runtime/request/frozen.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

const char* const frozen_variable = "SLURM_BERTH_FROZEN";
const char* const refused_variable = "SLURM_BERTH_REFUSED";
const char* const agreement_variable = "SLURM_BERTH_MEETING";
const char* const secret_variable = "BERTH_AGREE_SECRET";

std::string frozen_value(std::string_view image, const Digest& digest) { return cat(image, " ", digest); }

std::string refused_value(std::string_view image, const std::vector<std::string>& words) {
    std::string out(image);
    for (const std::string& word : words) out += cat(" ", word);
    return out;
}

std::vector<std::string> refused_logins(const std::vector<std::string>& environment, std::string_view image) {
    constexpr size_t most = 16;
    std::string start = cat(refused_variable, "=", image, " ");
    std::vector<std::string> out;
    for (const std::string& text : environment) {
        if (!text.starts_with(start)) continue;
        for (std::string& word : split(text.substr(start.size()), ' '))
            if (!word.empty() && out.size() < most) out.push_back(std::move(word));
    }
    return out;
}

std::string agreement_value(std::string_view image, std::string_view place) { return cat(image, " ", place); }

void forget_agreement(std::vector<std::string>& environment) {
    std::erase_if(environment,
                  [](const std::string& text) { return text.starts_with(cat(agreement_variable, "=")); });
}

std::string agreement_address(const std::vector<std::string>& environment, std::string_view image,
                              std::string_view node, unsigned rank) {
    std::string start = cat(agreement_variable, "=", image, " "), host, place;
    for (const std::string& text : environment) {
        if (text.starts_with("SLURM_SRUN_COMM_HOST=")) host = text.substr(text.find('=') + 1);
        if (text.starts_with(start)) place = text.substr(start.size());
    }
    if (host.empty() || place.empty()) return {};
    return cat(host, ' ', place.substr(0, place.find(' ', place.find(' ') + 1)), ' ', node, ' ', rank);
}

std::optional<Digest> frozen_digest(const std::vector<std::string>& environment, std::string_view image) {
    std::string start = cat(frozen_variable, "=", image, " ");
    for (const std::string& text : environment) {
        if (!text.starts_with(start)) continue;
        std::string_view word = std::string_view(text).substr(start.size());
        word = word.substr(0, word.find(' '));
        if (auto digest = Digest::parse(word)) return digest;
        throw Error(cat("the image ", printable(image, 1024), ": srun or sbatch found that it is ",
                        printable(word, 256), ", which is no digest that this node's berth knows; name the image by "
                        "its sha256 digest, or choose nodes of srun's release"));
    }
    return std::nullopt;
}

}  // namespace berth::plan
