#include "runtime/doctor/doctor.hh"

#include <algorithm>
#include <cstdio>

#include "runtime/base/text.hh"

namespace berth {

namespace {

using Verdict = Finding::Verdict;

/// The first two numbers of a release name; 0.0 when it has none.
std::pair<unsigned, unsigned> kernel_version(const std::string& release) {
    unsigned major = 0, minor = 0;
    if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) != 2) return {0, 0};
    return {major, minor};
}

/// A finding of which the reason may end with what to do ("...; run chown root on it"). That is the advice then:
/// `otherwise` is for what says nothing of the kind.
Finding advised(Verdict verdict, const char* subject, const std::string& problem, const std::string& otherwise) {
    static constexpr std::string_view verbs[] = {"set", "run", "correct", "write", "let", "unset", "remove"};
    size_t at = problem.rfind("; ");
    std::string last = at == problem.npos ? "" : problem.substr(at + 2);
    if (std::ranges::find(verbs, last.substr(0, last.find(' '))) == std::end(verbs))
        return {verdict, subject, problem, otherwise};
    return {verdict, subject, problem.substr(0, at), last};
}

Finding kernel(const DoctorFacts& facts) {
    // Overlay file systems in user namespaces came with 5.11, mount_setattr(2) with 5.12.
    if (kernel_version(facts.kernel) < std::pair(5U, 12U))
        return {Verdict::warning, "kernel", "Linux " + facts.kernel,
                "Linux 5.12 or newer is needed, or a distribution's kernel with overlay in user namespaces"};
    return {Verdict::ok, "kernel", "Linux " + facts.kernel, ""};
}

/// What to do about a problem that may be SELinux's; `otherwise` where it is not.
std::string advice_on_denial(const std::string& problem, const char* otherwise) {
    return problem.find("SELinux forbids") == problem.npos
               ? otherwise
               : "map the user to an unconfined SELinux user, or load a policy module: docs/install/selinux.md";
}

/// What to do about a mount that failed; `otherwise` where nothing forbids mounts.
std::string advice_on_mount(const std::string& problem, const char* otherwise) {
    return problem.find("a security module") == problem.npos
               ? advice_on_denial(problem, otherwise)
               : "allow berth to mount, by the rule `mount` of its AppArmor profile";
}

Finding user_namespaces(const DoctorFacts& facts) {
    if (facts.user_namespace)
        return {Verdict::failure, "user namespaces", *facts.user_namespace,
                advice_on_denial(*facts.user_namespace,
                                 facts.user_namespace->find("a chroot") == std::string::npos
                                     ? "change the setting that the line names; keep it in /etc/sysctl.d/"
                                     : "run it outside of the chroot, or of the container whose seccomp filter it is")};
    long most = facts.settings.max_user_namespaces.value_or(0);
    // A container takes one, and every step of every job on the node has one.
    if (facts.settings.max_user_namespaces && most < 1000)
        return {Verdict::warning, "user namespaces", cat("at most ", most, " on this node"),
                "sysctl -w user.max_user_namespaces=15000"};
    return {Verdict::ok, "user namespaces", "may be made by users", ""};
}

Finding not_tried(const char* subject) {
    return {Verdict::note, subject, "cannot be tried without user namespaces", ""};
}

Finding overlay(const DoctorFacts& facts) {
    if (facts.user_namespace) return not_tried("overlay");
    if (facts.overlay)
        return {Verdict::failure, "overlay", *facts.overlay,
                advice_on_mount(*facts.overlay, "modprobe overlay, or a kernel of at least 5.12")};
    if (facts.tmpfs_xattrs)
        return {Verdict::warning, "overlay",
                "works, but tmpfs keeps no user attributes here: a directory of the image that was removed cannot be "
                "made again in a container",
                "Linux 6.6 or newer, or named containers, whose changes lie on a disk"};
    return {Verdict::ok, "overlay", "works in a user namespace", ""};
}

Finding fuse(const DoctorFacts& facts) {
    if (facts.user_namespace) return not_tried("FUSE");
    if (facts.fuse)
        return {Verdict::failure, "FUSE", *facts.fuse,
                advice_on_mount(*facts.fuse, "modprobe fuse; chmod 666 /dev/fuse (the udev rules of the fuse3 package "
                                             "do it at boot)")};
    return {Verdict::ok, "FUSE", "/dev/fuse can be opened and mounted", ""};
}

Finding cgroups(const DoctorFacts& facts) {
    if (facts.cgroups == "none")
        return {Verdict::warning, "cgroups", "none are mounted",
                "without them Slurm confines neither memory nor devices of a step (TaskPlugin=task/cgroup)"};
    // See docs/adr/0072; spank/cgroup.hh has the names.
    bool is_v2 = facts.cgroups == "v2";
    return {Verdict::ok, "cgroups",
            cat(facts.cgroups, "; with proctrack/cgroup a step's file server is in ",
                is_v2 ? "job_N/step_N/berth" : "job_N/berth_N of the freezer", ", a named container's in ",
                is_v2 ? "job_N/berth_N" : "job_N/berth"),
            ""};
}

Finding limits(const DoctorFacts& facts) {
    if (facts.open_files < 1024)
        return {Verdict::warning, "limits", cat("only ", facts.open_files, " open files"),
                "ulimit -n 1024, or LimitNOFILE of slurmd"};
    // Verbs pin their buffers; without RDMA adapters nobody needs that.
    auto pinning = std::ranges::find_if(facts.devices, [](const auto& status) { return !status.pins_memory.empty(); });
    if (pinning != facts.devices.end() && facts.memlock != UINT64_MAX)
        return {Verdict::warning, "limits",
                cat(pinning->pins_memory, ", but only ", human_bytes(facts.memlock), " of locked memory"),
                "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"};
    return {Verdict::ok, "limits",
            cat(facts.open_files, " open files, locked memory ",
                facts.memlock == UINT64_MAX ? "unlimited" : human_bytes(facts.memlock)),
            ""};
}

Finding programs(const DoctorFacts& facts) {
    if (!facts.pull_program_problem.empty())
        return {Verdict::failure, "programs", facts.pull_program_problem,
                "install berth whole: images are pulled by that program"};
    return {Verdict::ok, "programs", facts.pull_program, ""};
}

Finding site_file(const DoctorFacts& facts) {
    if (!facts.site_file_problem.empty())
        return advised(Verdict::failure, "site file", facts.site_file_problem,
                       facts.site_file_problem.starts_with("BERTH_") ? "change the variable, or unset it"
                                                                     : "mend the line that is named");
    return {Verdict::ok, "site file", "no mistake in it", ""};
}

Finding store(const DoctorFacts& facts) {
    const PlaceFacts& place = facts.store;
    if (!place.problem.empty())
        return advised(Verdict::failure, "store", place.problem,
                       "let root remove what is in its place, or set store.path in berth.conf");
    std::string text = cat(place.path, " on ", place.file_system, ", ", human_bytes(place.free_bytes), " free");
    if (place.free_bytes < (1ULL << 30) || place.free_inodes == 0)
        return {Verdict::warning, "store", text,
                "an image takes up to 20 GB: make room (berth gc), or set store.path to a larger file system"};
    if (!place.locks)
        return {Verdict::warning, "store", text + ", no locks",
                "set limits.store_age longer than the longest job: what runs cannot be told from what does not"};
    if (place.network)
        return {Verdict::note, "store", text,
                "a network file system: set limits.store_age longer than the longest job; a local disk starts faster"};
    return {Verdict::ok, "store", text, ""};
}

Finding shared_store(const SharedStoreFacts& store) {
    if (!store.here)
        return {Verdict::note, "shared store", cat(store.path, " is not there"),
                "mount it, or fill it with berth mirror as store.shared_owner; users' own stores serve until then"};
    if (!store.problem.empty())
        return advised(Verdict::warning, "shared store", store.problem,
                       "what is passed over is pulled by each user; let the owner run berth verify there");
    return {Verdict::ok, "shared store",
            cat(store.path, " on ", store.file_system, ", ", store.images, " images, readable by all"), ""};
}

std::string ports_text(const SharingFacts& facts) {
    if (facts.ports.first == 0) return "any port, which the nodes' firewalls must let through";
    return cat("ports ", facts.ports.first, " to ", facts.ports.last, ", ", facts.free_ports, " of ",
               facts.ports.last - facts.ports.first + 1, " free");
}

/// Whether other nodes reach this one is seen in a step alone: docs/cluster.md.
Finding sharing(const SharingFacts& facts) {
    std::vector<std::string> texts;
    for (const LocalAddress& one : facts.addresses) texts.push_back(one.address);
    auto chosen = plan::address_in(facts.networks, texts);
    if (!facts.networks.empty() && !chosen)
        return {Verdict::warning, "sharing",
                cat("no address of this node is in share.networks (", facts.networks[0],
                    facts.networks.size() > 1 ? ", ..." : "", "); others reach it at the one by which it reaches srun"),
                "name a network there that all nodes are in"};
    if (facts.ports.first != 0 && facts.free_ports == 0)
        return {Verdict::warning, "sharing", cat(ports_text(facts), ": nodes without one pull for themselves"),
                "widen share.ports: a step takes one on each of its nodes while it pulls and until its tasks end"};
    if (!chosen)
        return {Verdict::ok, "sharing", cat("at the address by which a node reaches srun, ", ports_text(facts)), ""};
    const LocalAddress& at = facts.addresses[static_cast<size_t>(std::ranges::find(texts, *chosen) - texts.begin())];
    std::string speed = at.speed > 0 ? cat(at.speed, " Mbit/s, ") : "";
    return {Verdict::ok, "sharing",
            cat("at ", at.address, " (", at.interface, ", ", speed, "MTU ", at.mtu, "), ", ports_text(facts)), ""};
}

/// As Slurm writes it: "24.05.8".
std::string version_of(uint32_t number) {
    uint32_t minor = number >> 8 & 0xff;
    return cat(number >> 16, minor < 10 ? ".0" : ".", minor, ".", number & 0xff);
}

/// Slurm loads plugins of its own major and minor version only. "22.05.8" against 0x160508.
bool same_release(const std::string& version, uint32_t number) {
    unsigned major = 0, minor = 0;
    return std::sscanf(version.c_str(), "%u.%u", &major, &minor) == 2 && number >> 16 == major &&
           (number >> 8 & 0xff) == minor;
}

Finding slurm(const DoctorFacts& facts) {
    const SlurmFacts& slurm = facts.slurm;
    if (slurm.version.empty())
        return {Verdict::note, "Slurm", "neither slurmd nor a configured srun is in PATH",
                "without Slurm, berth run starts containers"};
    std::string text = "Slurm " + slurm.version;
    std::string looked;
    for (const std::string& file : slurm.looked) looked += (looked.empty() ? "" : ", ") + file;
    if (slurm.plugstack.empty())
        return {Verdict::failure, "Slurm",
                cat(text, "; the plugin is not loaded by ", looked.empty() ? "any plugstack.conf" : looked),
                "run berth setup plugstack --enable as root, and include /etc/slurm/plugstack.conf.d/*.conf in "
                "plugstack.conf"};
    if (!slurm.line_problem.empty())
        return advised(Verdict::failure, "Slurm", cat(text, "; ", slurm.plugstack, ": ", slurm.line_problem),
                       "mend the line's words; spank_berth(8) has them");
    if (slurm.plugin.empty())
        return {Verdict::failure, "Slurm",
                cat(text, "; ", slurm.plugstack, " loads spank_berth.so, which is not there"),
                "install it in Slurm's plugin directory"};
    if (!slurm.plugin_problem.empty())
        return {Verdict::failure, "Slurm", cat(text, "; ", slurm.plugin, ": ", slurm.plugin_problem),
                "chown root and chmod 755 it and its folders"};
    if (!slurm.built_for)
        return {Verdict::failure, "Slurm", cat(text, "; ", slurm.plugin, " is no plugin of Slurm"),
                "install the plugin again"};
    if (!same_release(slurm.version, *slurm.built_for))
        return {Verdict::failure, "Slurm",
                cat(text, ", but ", slurm.plugin, " was built for ", version_of(*slurm.built_for)),
                "install the package built for this release of Slurm"};
    // See spank/slurm.hh.
    if (slurm.version != version_of(*slurm.built_for))
        return {Verdict::warning, "Slurm",
                cat(text, ", but ", slurm.plugin, " was built for ", version_of(*slurm.built_for),
                    ": it does not look at TaskProlog, TmpFS and SrunPortRange"),
                "install the package built for this release of Slurm"};
    if (!slurm.pyxis.empty())
        return {Verdict::warning, "Slurm",
                cat(text, ", ", slurm.plugin, " loaded by ", slurm.plugstack, "; ", slurm.pyxis,
                    " loads the plugin of Pyxis as well, which does the work while it is there"),
                cat("take its line out of ", slurm.pyxis)};
    return {Verdict::ok, "Slurm", cat(text, ", ", slurm.plugin, " loaded by ", slurm.plugstack), ""};
}

Finding device(const hooks::DeviceStatus& status) {
    using Level = hooks::DeviceStatus::Level;
    Verdict verdict = status.level == Level::ok        ? Verdict::ok
                      : status.level == Level::note    ? Verdict::note
                      : status.level == Level::warning ? Verdict::warning
                                                       : Verdict::failure;
    return {verdict, status.subject, status.text, status.advice};
}

}  // namespace

std::vector<Finding> examine(const DoctorFacts& facts) {
    std::vector<Finding> out = {kernel(facts), user_namespaces(facts), overlay(facts),   fuse(facts),  cgroups(facts),
                                limits(facts), programs(facts),        site_file(facts), store(facts), slurm(facts)};
    for (const SharedStoreFacts& one : facts.shared_stores) out.push_back(shared_store(one));
    if (facts.sharing.enabled) out.push_back(sharing(facts.sharing));
    for (const std::string& setting : facts.slurm.settings)
        out.push_back({Verdict::ok, "Slurm's settings", setting, ""});
    for (const hooks::DeviceStatus& status : facts.devices) out.push_back(device(status));
    if (facts.asks_for_squashfuse)
        out.push_back({Verdict::note, "file server", "mount.engine is \"squashfuse\": images are unpacked instead",
                       "write \"unpack\", or leave mount.engine out for berth's file server"});
    for (const std::string& trouble : facts.event_troubles)
        out.push_back({Verdict::warning, "events", trouble,
                       trouble.starts_with("events.log: ")
                           ? "write %u into events.log, a file for each user in a folder of mode 1777, or make the one "
                             "file as root with mode 622"
                           : "make the folder of events.log with mode 1777, set events.counters to "
                             "/var/lib/berth/%U.counters, or leave the keys out"});
    if (!facts.counters_to_come.empty())
        out.push_back(
            {Verdict::note, "events", facts.counters_to_come + " is made by your first step on this node", ""});
    return out;
}

}  // namespace berth
