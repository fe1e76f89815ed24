// What the kernel shows below /proc and /sys/fs/cgroup, whose names are often of a user's making: the cgroups of a
// process, its mounts, its signals. The first byte of an input chooses.
#include <cmath>

#include "runtime/base/cpus.hh"
#include "runtime/base/mountinfo.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"
#include "spank/overdue.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void check_place(const spank::LeafPlace& place, std::string_view text) {
    must(text.find(place.parent) != text.npos && place.parent.starts_with('/'), "a group that is not in the text");
    must(place.mount.starts_with("/sys/fs/cgroup"), "a hierarchy elsewhere");
    must(spank::is_leaf_name(place.name), "a leaf that would not be known again");
}

void run_groups(std::string_view text) {
    spank::is_in_leaf(text);
    auto group = spank::job_group(text);
    if (!group) return;
    check_place(spank::leaf_of_step(*group, "0"), text);
    check_place(spank::leaf_of_job(*group, "0"), text);
    must(!group->unified || group->step.starts_with(group->job + '/'), "a step that is not below its job");
}

/// The membership up to an empty line; the rest is what each file says.
void run_cpus(std::string_view input) {
    size_t border = input.find("\n\n");
    std::string_view membership = input.substr(0, border);
    std::string content(border == input.npos ? std::string_view() : input.substr(border + 2));
    auto cpus = cgroup_cpus(membership, [&](const std::string& path) {
        must(path.starts_with("/sys/fs/cgroup/"), "a file elsewhere");
        return std::optional(content);
    });
    must(!cpus || (std::isfinite(*cpus) && *cpus >= 0), "a number of CPUs that is none");
}

void run_mounts(std::string_view text) {
    size_t size = 0;
    for (const MountLine& line : parse_mountinfo(text))
        size += line.id.size() + line.place.size() + line.type.size() + line.source.size();
    must(size <= text.size(), "lines longer than the text");
    // As the kernel writes it (fs/seq_file.c, mangle_path).
    std::string escaped;
    for (char c : text) escaped += c == ' ' ? "\\040" : c == '\t' ? "\\011" : c == '\n' ? "\\012" : std::string(1, c);
    if (text.find('\\') == text.npos) {
        must(unescaped_field(escaped) == text, "a field that was written is another one");
        auto lines = parse_mountinfo(cat("36 35 98:0 / ", escaped, " rw shared:1 master:2 - overlay ", escaped, " rw"));
        must(lines.size() == 1 && lines[0].id == "36" && lines[0].place == text && lines[0].source == text &&
                 lines[0].type == "overlay",
             "a mount's fields make it another one");
    }
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 4;
    if (which == 0) run_groups(input);
    if (which == 1) run_cpus(input);
    if (which == 2) run_mounts(input);
    if (which == 3) spank::fate_of(input);
}

const hostile::Registration registration("proc", run);

}  // namespace
