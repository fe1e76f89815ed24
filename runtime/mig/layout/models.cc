#include "runtime/mig/layout/models.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

std::vector<Placement> at(std::initializer_list<unsigned> starts, unsigned size) {
    std::vector<Placement> out;
    for (unsigned start : starts) out.push_back({start, size});
    return out;
}

/// Names of the six sizes of a GPU with seven slices that compute and eight of memory: the smallest, that with twice
/// the memory, and those of 2, 3, 4 and 7 slices.
struct Names {
    const char *one, *one_wide, *two, *three, *four, *seven;
};

/// Decoders, and decoders of JPEG, of the same sizes.
struct Media {
    unsigned one, one_wide, two, three, four, seven;
};

constexpr Media few_decoders{0, 1, 1, 2, 2, 5};  // Ampere
constexpr Media no_jpeg{0, 0, 0, 0, 0, 1};
constexpr Media one_a_slice{1, 1, 2, 3, 4, 7};  // from Hopper on

/// Of NVIDIA's MIG user guide, and of what `nvidia-smi mig -lgip` and `-lgipp` print.
Model seven_slices(std::string name, const Names& names, const Media& decoders, const Media& jpeg) {
    Engines media{1, 1, 1};
    return {std::move(name),
            {{19, names.one, 1, 7, {decoders.one, jpeg.one, 0}, at({0, 1, 2, 3, 4, 5, 6}, 1)},
             {20, cat(names.one, "+me"), 1, 1, media, at({0, 1, 2, 3, 4, 5, 6}, 1)},
             {15, names.one_wide, 1, 4, {decoders.one_wide, jpeg.one_wide, 0}, at({0, 2, 4, 6}, 2)},
             {14, names.two, 2, 3, {decoders.two, jpeg.two, 0}, at({0, 2, 4}, 2)},
             {9, names.three, 3, 2, {decoders.three, jpeg.three, 0}, at({0, 4}, 4)},
             {5, names.four, 4, 1, {decoders.four, jpeg.four, 0}, at({0}, 4)},
             {0, names.seven, 7, 1, {decoders.seven, jpeg.seven, 1}, at({0}, 8)}}};
}

Model a30() {
    return {"A30",
            {{14, "1g.6gb", 1, 4, {1, 0, 0}, at({0, 1, 2, 3}, 1)},
             {21, "1g.6gb+me", 1, 1, {1, 1, 1}, at({0, 1, 2, 3}, 1)},
             {5, "2g.12gb", 2, 2, {2, 0, 0}, at({0, 2}, 2)},
             {6, "2g.12gb+me", 2, 1, {2, 1, 1}, at({0, 2}, 2)},
             {0, "4g.24gb", 4, 1, {4, 1, 1}, at({0}, 4)}}};
}

/// Words of NVML's name, in the order in which they are tried.
constexpr std::pair<std::string_view, std::string_view> by_name[] = {
    {"A100-SXM4-40GB", "A100-40GB"}, {"A100-PCIE-40GB", "A100-40GB"},   {"A100-SXM4-80GB", "A100-80GB"},
    {"A100 80GB", "A100-80GB"},      {"A100-SXM-80GB", "A100-80GB"},    {"A30", "A30"},
    {"H100 80GB", "H100-80GB"},      {"H100 PCIe", "H100-80GB"},        {"H100 NVL", "H100-94GB"},
    {"H100 96GB", "H100-96GB"},      {"GH200 480GB", "H100-96GB"},      {"H200", "H200"},
    {"B200", "B200"}};

/// So that "A30" is not found in "A3000", nor "H200" in "GH200".
bool has_word(std::string_view text, std::string_view word) {
    auto inside = [&](size_t i) { return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0; };
    for (size_t found = text.find(word); found != text.npos; found = text.find(word, found + 1))
        if ((found == 0 || !inside(found - 1)) && !inside(found + word.size())) return true;
    return false;
}

}  // namespace

const Profile* Model::named(const std::string& profile) const {
    auto found = std::find_if(profiles.begin(), profiles.end(), [&](const Profile& it) { return it.name == profile; });
    return found == profiles.end() ? nullptr : &*found;
}

const Profile* Model::numbered(unsigned id) const {
    auto found = std::find_if(profiles.begin(), profiles.end(), [&](const Profile& it) { return it.id == id; });
    return found == profiles.end() ? nullptr : &*found;
}

Compute compute_of(unsigned slices) {
    // In the order of NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE and the following.
    static constexpr unsigned sizes[] = {1, 2, 3, 4, 7, 8, 6};
    auto found = std::find(std::begin(sizes), std::end(sizes), slices);
    if (found == std::end(sizes)) throw Error(cat("no compute instance has ", slices, " slices"));
    return {static_cast<unsigned>(found - std::begin(sizes)), {0, slices}};
}

bool same_instance(const Instance& one, const Instance& other) {
    return one.same_place(other) && one.computes.size() == other.computes.size() &&
           std::is_permutation(one.computes.begin(), one.computes.end(), other.computes.begin());
}

bool same_layout(const Layout& one, const Layout& other) {
    return one.size() == other.size() &&
           std::is_permutation(one.begin(), one.end(), other.begin(), same_instance);
}

const std::vector<Model>& known_models() {
    static const std::vector<Model> all{
        seven_slices("A100-40GB", {"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}, few_decoders,
                     no_jpeg),
        seven_slices("A100-80GB", {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}, few_decoders,
                     no_jpeg),
        a30(),
        seven_slices("H100-80GB", {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}, one_a_slice,
                     one_a_slice),
        seven_slices("H100-94GB", {"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}, one_a_slice,
                     one_a_slice),
        seven_slices("H100-96GB", {"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"}, one_a_slice,
                     one_a_slice),
        seven_slices("H200", {"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}, one_a_slice,
                     one_a_slice),
        seven_slices("B200", {"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}, one_a_slice,
                     one_a_slice)};
    return all;
}

std::optional<Model> model_of(std::string_view gpu) {
    std::string_view name = gpu;
    for (const auto& [words, model] : by_name)
        if (has_word(gpu, words)) {
            name = model;
            break;
        }
    for (const Model& model : known_models())
        if (model.name == name) return model;
    return std::nullopt;
}

}  // namespace berth::mig
