#include "runtime/request/unknown_variables.hh"

#include <algorithm>

#include "runtime/base/nearest.hh"
#include "runtime/base/text.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/frozen.hh"

namespace berth::plan {

namespace {

constexpr std::string_view prefix = "BERTH_";

constexpr std::string_view sections[] = {"data",   "defaults", "devices", "events", "hooks",    "limits",
                                         "mount",  "mpi",      "network", "policy", "registry", "security",
                                         "share",  "site",     "slurm",   "store"};

/// What else Berth reads, or leaves in a container.
const std::vector<std::string>& others() {
    static const std::vector<std::string> all = {"BERTH_DEVICES", "BERTH_PLAN", "BERTH_LOG", "BERTH_CONTAINER_DIGEST",
                                                 secret_variable};
    return all;
}

/// The scripts and tests of this project are started with these, and they reach what those start: CONTRIBUTING.md.
constexpr std::string_view of_tests[] = {"BERTH_TEST_",    "BERTH_BOX_",   "BERTH_GUEST_",   "BERTH_BENCH_",
                                         "BERTH_MUST_RUN", "BERTH_BUILT",  "BERTH_GOLDEN",   "BERTH_FAKE_NVML",
                                         "BERTH_ROOT_DIR", "BERTH_DEBIAN", "BERTH_SLURM_DIR"};

std::vector<std::string> known_variables() {
    std::vector<std::string> out = others();
    for (const SrunOption& option : srun_options())
        if (!std::string_view(option.name).starts_with("no-")) out.push_back(variable_name("BERTH_", option.name));
    return out;
}

/// "STORE" of BERTH_STORE_PATH.
std::string section_word(std::string_view variable) {
    std::string_view rest = variable.substr(prefix.size());
    return std::string(rest.substr(0, rest.find('_')));
}

/// The plugin knows the sections alone: a mistake in the section's name.
std::string with_section_meant(const std::string& name) {
    std::vector<std::string> words;
    for (std::string_view section : sections) words.push_back(variable_name("", section));
    std::string word = section_word(name), found = nearest(word, words);
    if (found.empty()) return name;
    return cat(name, " (did you mean ", prefix, found, name.substr(prefix.size() + word.size()), "?)");
}

}  // namespace

std::span<const std::string_view> site_sections() { return sections; }

bool is_known_variable(const std::string& name) {
    static const std::vector<std::string> known = known_variables();
    return std::find(known.begin(), known.end(), name) != known.end() ||
           std::any_of(std::begin(of_tests), std::end(of_tests),
                       [&](std::string_view start) { return name.starts_with(start); });
}

bool is_of_section(std::string_view variable) {
    if (!variable.starts_with(prefix)) return false;
    std::string word = lower(section_word(variable));
    return std::find(std::begin(sections), std::end(sections), word) != std::end(sections);
}

std::string with_meant(std::string_view variable, const std::vector<std::string>& known) {
    // What all begin with makes none alike.
    std::vector<std::string> rests;
    for (const std::string& one : known) rests.push_back(one.substr(std::min(one.size(), prefix.size())));
    std::string found = nearest(variable.substr(std::min(variable.size(), prefix.size())), rests);
    return found.empty() ? printable(variable) : cat(printable(variable), " (did you mean ", prefix, found, "?)");
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& environment) {
    std::vector<std::string> out;
    for (const std::string& text : environment) {
        if (!text.starts_with(prefix) || text.ends_with('=')) continue;
        std::string name = text.substr(0, text.find('='));
        if (is_of_section(name) || is_known_variable(name)) continue;
        std::string meant = with_meant(name, known_variables());
        out.push_back(meant == name ? with_section_meant(name) : meant);
    }
    return out;
}

std::string unknown_variables_note(const std::vector<std::string>& variables) {
    if (variables.empty()) return {};
    std::string names;
    for (const std::string& one : variables) names += cat(names.empty() ? "" : ", ", one);
    return cat("no variable of Berth's, and without effect: ", names, "; see ENVIRONMENT in spank_berth(8)");
}

}  // namespace berth::plan
