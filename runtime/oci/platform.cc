#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/plan/platform.hh"

namespace berth::oci {

namespace {

/// How little a platform asks of the machine, the least first; nothing when it does not fit. No variant stands behind
/// the machine's first, so that all nodes of a cluster choose the same, whatever more their CPUs can do.
std::optional<size_t> rank_of(const Platform& platform, const Machine& machine) {
    if (lower(platform.os) != "linux" ||
        machine_named(lower(platform.architecture)).architecture != machine.architecture)
        return std::nullopt;
    if (platform.variant.empty()) return 1;
    auto found = std::ranges::find(machine.variants, lower(platform.variant));
    if (found == machine.variants.end()) return std::nullopt;
    return 2 * static_cast<size_t>(found - machine.variants.begin());
}

/// The first of those that ask for the least; null where none fits.
template <typename Entry>
const Entry* fitting(const std::vector<Entry>& entries, const Machine& machine) {
    const Entry* best = nullptr;
    std::optional<size_t> least;
    for (const Entry& entry : entries) {
        auto rank = entry.platform ? rank_of(*entry.platform, machine) : std::nullopt;
        if (!rank || (least && *least <= *rank)) continue;
        best = &entry;
        least = rank;
    }
    return best;
}

/// Those a person could choose from: attestations and the like say "unknown".
std::string choices(const ImageIndex& index) {
    std::string out;
    auto add = [&](const std::optional<Platform>& platform) {
        if (!platform || platform->os == "unknown" || out.size() > 400) return;
        out += cat(out.empty() ? "" : ", ", printable(platform->text(), 64));
    };
    for (const ImageIndex::Entry& entry : index.entries) add(entry.platform);
    for (const ImageIndex::Unreadable& entry : index.unreadable) add(entry.platform);
    return out.empty() ? "none" : out;
}

}  // namespace

std::string Platform::text() const { return cat(os, "/", architecture, variant.empty() ? "" : "/", variant); }

Machine this_machine() {
    Machine out{std::string(plan::machine_architecture), {std::string(plan::machine_variant)}};
#if defined(__x86_64__)
    // Levels of the x86-64 psABI by the features that came last to each: clang 14 knows no levels by name.
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) out.variants.push_back("v2");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        out.variants.push_back("v3");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        out.variants.push_back("v4");
#endif
    return out;
}

Machine machine_named(std::string_view name) {
    struct Known {
        std::string_view names;  ///< the image specification's first, a blank around each
        std::string_view variant;
    };
    // uname(2)'s and dpkg-architecture(1)'s names; variants are those of containerd's platform package.
    static constexpr Known machines[] = {{" amd64 x86_64 ", "v1"}, {" arm64 aarch64 ", "v8"},
                                         {" arm armv7l armhf ", "v7"}, {" 386 i386 i486 i586 i686 ", ""},
                                         {" ppc64le ppc64el ", ""}};
    std::string_view architecture = name.substr(0, name.find('/')), variant;
    if (architecture != name) variant = name.substr(architecture.size() + 1);
    for (const Known& known : machines)
        if (known.names.find(cat(" ", architecture, " ")) != known.names.npos) {
            architecture = known.names.substr(1, known.names.find(' ', 1) - 1);
            if (variant.empty()) variant = known.variant;
        }
    Machine out{std::string(architecture), {std::string(variant)}};
    return out.architecture == plan::machine_architecture && variant == plan::machine_variant ? this_machine() : out;
}

const Descriptor& choose_platform(const ImageIndex& index, const Machine& machine, const std::string& what) {
    if (const auto* entry = fitting(index.entries, machine)) return entry->descriptor;
    if (const auto* entry = fitting(index.unreadable, machine)) throw Error(entry->problem);
    for (const ImageIndex::Entry& entry : index.entries)
        if (!entry.platform) return entry.descriptor;
    for (const ImageIndex::Unreadable& entry : index.unreadable)
        if (!entry.platform) throw Error(entry.problem);
    throw Error(cat(what, ": no image for linux/", machine.architecture, " in it; there are: ", choices(index)));
}

}  // namespace berth::oci
