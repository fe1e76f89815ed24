#include "runtime/mount/fuse/idle_process.hh"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <string_view>
#include <utility>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"

namespace berth::mount {

namespace {

constexpr size_t node_text_limit = 64 << 10;

/// Others have the CPUs before it. Not SCHED_IDLE: a process that is killed has to run once more to end, for which the
/// container's end waits.
void let_others_go_first() {
    sched_param none{};
    ::sched_setscheduler(0, SCHED_BATCH, &none);
    ::setpriority(PRIO_PROCESS, 0, 19);
    constexpr int idle_class = 3 << 13;
    ::syscall(SYS_ioprio_set, 1, 0, idle_class);
    if (Fd score = sys::try_open_at(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY))
        (void)!::write(score.get(), "1000", 4);
    sigset_t all;
    sigemptyset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

[[noreturn]] void be_idle_process(std::vector<int> kept, int channel, const std::function<void()>& confine,
                                  const std::function<IdleWork>& work, pid_t parent) {
    try {
        ::prctl(PR_SET_NAME, "berth-ahead");
        ::setsid();
        let_others_go_first();
        NodeMemory node;
        for (int fd : node.descriptors()) kept.push_back(fd);
        kept.push_back(channel);
        sys::point_at_null({0, 1, 2});
        sys::close_descriptors_except(kept);
        confine();
        // Only after the change of credentials, which takes it back.
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(0);
        auto received = receive_message(channel);
        if (received && received->descriptors.size() == 1) work(channel, received->descriptors[0].get(), node);
    } catch (const std::exception&) {
        // Nobody misses what it would have done.
    }
    ::_exit(0);
}

}  // namespace

NodeMemory::NodeMemory()
    : proc_(sys::try_open_at(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY)),
      groups_(sys::try_open_at(AT_FDCWD, "/sys/fs/cgroup", O_PATH | O_DIRECTORY)),
      membership_(read("/proc/self/cgroup").value_or("")) {}

MemoryRoom NodeMemory::room() const {
    return memory_room(membership_, [this](const std::string& path) { return read(path); });
}

std::optional<std::string> NodeMemory::read(const std::string& path) const {
    constexpr std::string_view proc = "/proc/", groups = "/sys/fs/cgroup/";
    bool of_groups = path.starts_with(groups);
    int folder = of_groups ? groups_.get() : proc_.get();
    if (folder < 0) return std::nullopt;
    Fd file = sys::try_open_at(folder, path.substr(of_groups ? groups.size() : proc.size()), O_RDONLY);
    try {
        if (file) return sys::read_all(file.get(), node_text_limit, path);
    } catch (const Error&) {
        // What cannot be read limits nothing.
    }
    return std::nullopt;
}

IdleProcess start_idle_process(std::vector<int> kept, const std::function<void()>& confine,
                               const std::function<IdleWork>& work) {
    IdleProcess out;
    auto&& [ours, its] = make_channel();
    pid_t self = ::getpid();
    // No signal at its end: whoever waits for any child waits for commands.
    pid_t child = static_cast<pid_t>(::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
    if (child < 0) return out;
    if (child == 0) {
        ours.reset();
        be_idle_process(std::move(kept), its.get(), confine, work, self);
    }
    out.process = Pid(child);
    out.channel = std::move(ours);
    return out;
}

void show_mount(IdleProcess& process, int root) noexcept {
    try {
        if (process.process) send_message(process.channel.get(), {}, {root}, 0);
    } catch (const std::exception&) {
        // It has gone.
    }
}

}  // namespace berth::mount
