#include "spank/job_leaves.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"
#include "spank/held_devices.hh"
#include "spank/inhabitants.hh"
#include "spank/owned_directory.hh"

namespace berth::spank {

namespace {

constexpr int slurms_removal_ms = 1000;

/// Of the node, as several may be on one machine.
std::string link_prefix(const std::string& node) { return node + '.'; }

std::string text_of_link(int links, const std::string& name) {
    std::string out(4096, '\0');
    ssize_t size = readlinkat(links, name.c_str(), out.data(), out.size());
    out.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return out;
}

std::vector<std::string> groups_in(int folder) {
    std::vector<std::string> out = sys::list_directory(folder, "a job's cgroup");
    std::erase_if(out, [&](const std::string& name) {
        struct stat info {};
        return fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode);
    });
    return out;
}

/// The leaves in a group of a job and in those of its steps.
std::vector<Leaf> leaves_in(int group) {
    std::vector<Leaf> out;
    for (const std::string& name : groups_in(group)) {
        if (is_leaf_name(name)) out.push_back(Leaf::open(group, name));
        if (!name.starts_with("step_")) continue;
        Fd step = sys::open_if_exists(group, name, directory_flags);
        for (const std::string& below : step ? groups_in(step.get()) : std::vector<std::string>())
            if (is_leaf_name(below)) out.push_back(Leaf::open(step.get(), below));
    }
    std::erase_if(out, [](const Leaf& leaf) { return !leaf; });
    return out;
}

/// In the group or in one below it; Slurm has no more than a few levels of them.
bool has_processes(int group, int levels = 4) {
    if (!processes_in(group).empty()) return true;
    for (const std::string& name : levels > 0 ? groups_in(group) : std::vector<std::string>())
        if (Fd below = sys::open_if_exists(group, name, directory_flags);
            below && has_processes(below.get(), levels - 1))
            return true;
    return false;
}

bool is_of_version_1(const std::string& path) { return path.find("/uid_") != path.npos; }

/// As Slurm does while it removes them: it may be about to start a step of the same user's.
void remove_user_group(int hierarchy, const std::string& path) {
    if (flock(hierarchy, LOCK_EX | LOCK_NB) == 0) unlinkat(hierarchy, path.c_str(), AT_REMOVEDIR);
}

Fd open_group(const std::string& mount, const std::string& path) {
    Fd hierarchy = sys::open_if_exists(AT_FDCWD, mount, O_RDONLY | O_DIRECTORY);
    return hierarchy ? sys::find_beneath(hierarchy.get(), path.substr(1), directory_flags) : Fd();
}

/// The groups of the job in one hierarchy, none of which Slurm uses any more. One that is not empty stays.
void remove_in(const std::string& mount, const std::string& path) {
    Fd hierarchy = sys::open_if_exists(AT_FDCWD, mount, O_RDONLY | O_DIRECTORY);
    Fd group = open_group(mount, path);
    if (!group) return;
    for (const std::string& name : groups_in(group.get()))
        if (name.starts_with("step_")) unlinkat(group.get(), name.c_str(), AT_REMOVEDIR);
    unlinkat(hierarchy.get(), path.c_str() + 1, AT_REMOVEDIR);
    if (is_of_version_1(path)) remove_user_group(hierarchy.get(), path.substr(1, path.rfind('/') - 1));
}

/// With version 1 Slurm has the job's group in each of its hierarchies, by the same path.
std::vector<std::string> other_hierarchies(const std::string& mount, const std::string& path) {
    std::vector<std::string> out;
    if (!is_of_version_1(path)) return out;
    std::string all = mount.substr(0, mount.rfind('/'));
    for (const std::string& name : sys::list_directory(sys::open_file(all, O_RDONLY | O_DIRECTORY).get(), all))
        if (cat(all, '/', name) != mount) out.push_back(cat(all, '/', name));
    return out;
}

/// The first value of a line of /proc/PID/status, such as "Uid:"; empty when the process has gone.
std::string status_of(pid_t pid, const char* name) try {
    for (const std::string& line : split(sys::read_file(cat("/proc/", pid, "/status"), proc_file_limit), '\n'))
        if (std::vector<std::string> words = split(line, '\t'); words.size() > 1 && words[0] == name) return words[1];
    return {};
} catch (const Error&) {
    return {};
}

/// The real user of a process; empty when it has gone.
std::string uid_of(pid_t pid) { return status_of(pid, "Uid:"); }

/// 0 when it has gone.
pid_t parent_of(pid_t pid) {
    uint64_t out = 0;
    return parse_number(status_of(pid, "PPid:"), INT32_MAX, out) ? static_cast<pid_t>(out) : 0;
}

enum class Lives { outside, in_container, nested };

/// In a user namespace that was made inside of a container's, or in one that cannot be looked at, a process serves
/// nothing.
Lives where_lives(pid_t pid) {
    std::optional<NamespaceId> own = user_namespace_of(pid);
    if (own && own == user_namespace_of(getpid())) return Lives::outside;
    return own && own == container_of(pid) ? Lives::in_container : Lives::nested;
}

/// Those that live in a container, and what they have started outside of it: who brings an image that has still to come
/// does so for the container.
std::set<pid_t> servers_among(const std::vector<pid_t>& processes) {
    std::set<pid_t> out;
    std::vector<pid_t> outside;
    for (pid_t pid : processes) {
        Lives where = where_lives(pid);
        if (where == Lives::in_container) out.insert(pid);
        if (where == Lives::outside) outside.push_back(pid);
    }
    for (size_t before = 0; before != out.size();) {
        before = out.size();
        for (pid_t pid : outside)
            if (out.contains(parent_of(pid))) out.insert(pid);
    }
    return out;
}

/// Those of its leaves that do not end with a step.
std::vector<Leaf> leaves_of_job(int group, const std::string& path) {
    std::vector<Leaf> out;
    for (const std::string& name : groups_in(group))
        if (is_name_of_jobs_leaf(name, !is_of_version_1(path))) out.push_back(Leaf::open(group, name));
    std::erase_if(out, [](const Leaf& leaf) { return !leaf; });
    return out;
}

/// True when a process of the user's runs in a leaf of the job's.
bool has_process_of(int group, const std::string& path, const std::string& uid) {
    for (const Leaf& leaf : leaves_of_job(group, path))
        for (pid_t pid : leaf.members())
            if (uid_of(pid) == uid) return true;
    return false;
}

/// In the hierarchies without leaves of version 1 it goes to the job's own group.
void move_to_job(pid_t pid, const Leaf& leaf, const std::string& mount, const std::string& path) {
    if (!leaf.take(pid)) return;
    for (const std::string& other : other_hierarchies(mount, path))
        if (Fd there = open_group(other, path)) move_process(there.get(), pid);
}

/// How many files of all that is handed over are looked at; a process with more is ended. A user can open millions.
constexpr size_t most_links = 1 << 20;
/// What forks faster than that is looked at is ended with all that is there.
constexpr int most_looks = 200;

/// Kills what holds a device in a leaf of what has been handed over, and what has made a user namespace in a container
/// meanwhile. From the move on nothing there can open a device that its new job has not, and what was forked before or
/// meanwhile is there as well: it ends when nobody is new.
void kill_holders(const Leaf& leaf) {
    std::set<pid_t> seen;
    size_t links = most_links;
    for (int look = 0; look < most_looks; ++look) {
        size_t before = seen.size();
        for (pid_t pid : leaf.members()) {
            Fd process(seen.contains(pid) ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
            if (!process) continue;
            seen.insert(pid);
            if (where_lives(pid) != Lives::nested && !holds_devices(pid, links)) continue;
            // The number is another process's when it is no longer in the list.
            std::vector<pid_t> still = leaf.members();
            if (std::find(still.begin(), still.end(), pid) != still.end())
                syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
        }
        if (seen.size() == before) return;
    }
    leaf.kill_all();
}

/// What cannot be looked at does not go along.
void end_holders(const Leaf& leaf) try {
    kill_holders(leaf);
} catch (const Error&) {
    leaf.kill_all();
}

}  // namespace

void remember_job_group(const std::string& folder, const std::string& node, uint32_t job, const JobGroup& group) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw SysError("making " + folder);
    Fd links = sys::open_file(folder, directory_flags);
    std::string name = cat(link_prefix(node), job), target = cat(group.mount, '/', group.job);
    if (text_of_link(links.get(), name) == target) return;
    unlinkat(links.get(), name.c_str(), 0);
    if (symlinkat(target.c_str(), links.get(), name.c_str()) != 0 && errno != EEXIST)
        throw SysError(cat("making ", folder, '/', name));
}

JobLeaves::JobLeaves(const std::string& folder, const std::string& node, uint32_t job)
    : job_(job),
      links_path_(folder),
      links_(sys::open_if_exists(AT_FDCWD, folder, directory_flags)),
      link_prefix_(link_prefix(node)),
      link_(cat(link_prefix_, job)) {
    if (links_) target_ = target_of(link_);
    Fd hierarchy = sys::open_if_exists(AT_FDCWD, target_.mount, O_RDONLY | O_DIRECTORY);
    if (hierarchy) group_ = sys::find_beneath(hierarchy.get(), target_.path.substr(1), directory_flags);
    if (group_) leaves_of_job_ = leaves_of_job(group_.get(), target_.path);
}

bool JobLeaves::has_steps() const {
    for (const std::string& name : group_ ? groups_in(group_.get()) : std::vector<std::string>())
        if (Fd step = sys::open_if_exists(group_.get(), name, directory_flags);
            step && name.starts_with("step_") && has_processes(step.get()))
            return true;
    return false;
}

JobLeaves::Target JobLeaves::target_of(const std::string& link) const {
    std::string text = text_of_link(links_.get(), link);
    size_t border = text.find("//");
    return border == text.npos ? Target() : Target{text.substr(0, border), text.substr(border + 1)};
}

/// slurmd counts a slurmstepd as ended when it has closed its socket; it removes its groups after that, and tells the
/// user of one that it does not find (22.05, xcgroup_wait_pid_moved). What is still there then, nobody else removes.
void JobLeaves::wait_for_slurm() const {
    for (int waited = 0; waited < slurms_removal_ms; waited += 10, poll(nullptr, 0, 10)) {
        Fd group = open_group(target_.mount, target_.path);
        std::vector<std::string> names = group ? groups_in(group.get()) : std::vector<std::string>();
        if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("step_"); }))
            return;
    }
}

bool JobLeaves::end(int timeout_ms, bool slurm_is_done) {
    bool out = true;
    try {
        hand_over_servers();
    } catch (const Error&) {
        // What could not be handed over ends with the job.
    }
    leaves_of_job_.clear();
    if (group_) {
        for (Leaf& leaf : leaves_in(group_.get())) out = leaf.end(timeout_ms) && out;
        group_.reset();
    }
    if (slurm_is_done && !target_.path.empty()) {
        wait_for_slurm();
        remove_groups();
    }
    if (links_ && out) {
        unlinkat(links_.get(), link_.c_str(), 0);
        forget_gone_jobs();
    }
    return out;
}

/// Of this node.
std::vector<JobLeaves::Target> JobLeaves::other_jobs() const {
    std::vector<Target> out;
    for (const std::string& link : sys::list_directory(links_.get(), links_path_))
        if (link.starts_with(link_prefix_) && link != link_) out.push_back(target_of(link));
    return out;
}

void JobLeaves::hand_over_servers() const {
    std::vector<pid_t> members;
    for (const Leaf& leaf : leaves_of_job_)
        for (pid_t pid : leaf.members()) members.push_back(pid);
    std::vector<Target> others = members.empty() ? std::vector<Target>() : other_jobs();
    std::map<std::string, Leaf> taken;
    for (pid_t pid : servers_among(members)) {
        std::string uid = uid_of(pid);
        if (uid.empty()) continue;
        for (const Target& other : others) {
            Fd group = open_group(other.mount, other.path);
            if (!group || !has_process_of(group.get(), other.path, uid)) continue;
            // Of its own, so that it has what comes from here and nothing that is the other job's.
            Leaf& leaf = taken[other.path];
            if (!leaf && !make_leaf_in(other, leaf)) continue;
            move_to_job(pid, leaf, other.mount, other.path);
            break;
        }
    }
    for (const auto& [path, leaf] : taken) end_holders(leaf);
}

/// False when that job has ended meanwhile.
bool JobLeaves::make_leaf_in(const Target& job, Leaf& leaf) const try {
    leaf = Leaf::make({job.mount, job.path, leaf_handed_over_by(job_)});
    return true;
} catch (const Error&) {
    return false;
}

/// With version 1 the helper was in its step's groups of the other hierarchies too, perhaps when Slurm removed them.
void JobLeaves::remove_groups() const {
    remove_in(target_.mount, target_.path);
    for (const std::string& mount : other_hierarchies(target_.mount, target_.path)) remove_in(mount, target_.path);
}

/// Jobs whose epilog never ran, and whose groups Slurm has removed.
void JobLeaves::forget_gone_jobs() const {
    for (const std::string& name : sys::list_directory(links_.get(), links_path_))
        if (faccessat(links_.get(), name.c_str(), F_OK, 0) != 0 && errno == ENOENT)
            unlinkat(links_.get(), name.c_str(), 0);
}

}  // namespace berth::spank
