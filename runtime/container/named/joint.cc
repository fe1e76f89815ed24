#include "runtime/container/named/joint.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/lock.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/plan/likeness.hh"
#include "runtime/squash/index/index_format.hh"

namespace berth {

namespace {

using Clock = std::chrono::steady_clock;

// As often a helper may end just when it is asked; each time is another one.
constexpr int most_tries = 20;
/// The lock is held for a few system calls.
constexpr auto lock_patience = std::chrono::seconds(30);
/// For a start of another process, which has its image and its plan already.
constexpr auto start_patience = std::chrono::seconds(120);
constexpr int lock_step_ms = 5;
constexpr int joint_backlog = 1024;
constexpr size_t hash_digits = 32;
constexpr size_t cgroup_file_limit = 1 << 20;

std::string identity_of(const struct stat& st) {
    return cat(st.st_dev, " ", st.st_ino, " ", st.st_size, " ", st.st_mtim.tv_sec, ".", st.st_mtim.tv_nsec, "\n");
}

std::string identity_of(const Fd& file) {
    return file ? identity_of(sys::stat_of(file.get(), "a file of the image")) : std::string("none\n");
}

/// Which files are served, and how.
std::string identity_of(const ContainerImage& image) {
    std::string out = cat("image ", image.layers.size(), "\n");
    for (const Fd& layer : image.layers) out += identity_of(layer);
    out += cat(image.directory, "\n", image.directory_identity.first, " ", image.directory_identity.second, "\n");
    if (!image.directory.empty()) {
        struct stat st = sys::stat_of(sys::open_file(image.directory, O_PATH).get(), "the image's directory");
        out += cat(st.st_dev, " ", st.st_ino, "\n");
    }
    return out;
}

/// What this process sees of the node: one in a container of its own, or with mounts of its own, is no equal.
std::string view_of_node() {
    std::string out;
    for (const char* kind : {"mnt", "user", "pid", "net", "ipc", "uts", "cgroup"}) {
        struct stat st {};
        if (::stat(cat("/proc/self/ns/", kind).c_str(), &st) == 0)
            out += cat(kind, " ", st.st_dev, " ", st.st_ino, "\n");
    }
    struct stat root = sys::stat_of(sys::open_file("/", O_PATH).get(), "/");
    return cat(out, root.st_dev, " ", root.st_ino, "\n");
}

std::string all_that_counts(const JointStart& start, const ContainerImage& image) {
    const ContainerStorage& storage = start.storage;
    std::string cgroups = step_of_cgroups(sys::read_file("/proc/self/cgroup", cgroup_file_limit));
    return cat(start.step, "\n", cgroups, "\n", ::geteuid(), " ", ::getegid(), "\n",
               view_of_node(), identity_of(image), storage.path, "\n", storage.in_place ? "in place" : "", "\n",
               start.upper_folder, "\n", static_cast<int>(start.site.mount.engine), " ",
               static_cast<int>(start.site.mount.modes), "\n", plan::likeness(start.plan));
}

/// Of 32 digits. Whoever could find two texts of one hash could only have the containers of his own mixed up.
std::string hash_of(const std::string& text) {
    std::string out;
    for (const char* round : {"first ", "second "}) {
        char part[17];
        std::snprintf(part, sizeof part, "%016llx",
                      static_cast<unsigned long long>(squash::format::hash(round + text)));
        out += part;
    }
    return out;
}

/// Nodes may share the folder.
std::string prefix_of_node() {
    char name[HOST_NAME_MAX + 1] = "";
    ::gethostname(name, sizeof name - 1);
    return hash_of(name).substr(0, 8) + ".";
}

Fd joint_socket(int flags = 0) {
    Fd out(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
    if (!out) throw SysError("making the socket of a container");
    return out;
}

/// The folder of sockets, which is the user's and closed to others, and in it the socket of the equal starts of one
/// step.
class Sockets {
  public:
    Sockets(const JointStart& start, const ContainerImage& image)
        : folder_(open(start)),
          node_(prefix_of_node()),
          name_(node_ + hash_of(all_that_counts(start, image))) {}

    /// Throws WontJoin where another process keeps it.
    Lock lock() const {
        Fd file = sys::open_beneath(folder_.get(), "lock", O_RDWR | O_CREAT, 0600);
        auto until = Clock::now() + lock_patience;
        while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) throw SysError("locking the containers of steps");
            if (Clock::now() > until) throw WontJoin("another process keeps the lock of the containers of steps");
            ::poll(nullptr, 0, lock_step_ms);
        }
        return Lock(std::move(file));
    }

    /// A connection to the helper; empty when there is none.
    Fd connect() const {
        Fd out = joint_socket();
        if (sys::uninterrupted([&] { return connect(out, name_); }) != 0) {
            if (errno == ENOENT || errno == ECONNREFUSED) return {};
            throw SysError("joining the container of a step");
        }
        ucred peer{};
        socklen_t size = sizeof peer;
        if (::getsockopt(out.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid())
            throw WontJoin("the helper of the step's container is another user's");
        return out;
    }

    /// What listens in place of one whose helper has gone. Call with the lock, after connect().
    JointPlace listen() const {
        sweep();
        JointPlace out;
        out.listener = joint_socket();
        sockaddr_un address = address_of(name_);
        if (::bind(out.listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(out.listener.get(), joint_backlog) != 0)
            throw SysError("making the socket of a step's container");
        out.folder = Fd(::fcntl(folder_.get(), F_DUPFD_CLOEXEC, 0));
        out.socket = name_;
        if (!out.folder) throw SysError("making the socket of a step's container");
        return out;
    }

  private:
    static Fd open(const JointStart& start) {
        try {
            std::string path = open_container_folder(start.site, start.caller).path();
            Fd root = sys::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
            if (::mkdirat(root.get(), "steps", 0700) != 0 && errno != EEXIST)
                throw SysError(cat("making the folder steps in ", printable(path, 4096)));
            Fd out = sys::open_beneath(root.get(), "steps", O_RDONLY | O_DIRECTORY);
            struct stat st = sys::stat_of(out.get(), "the folder of the containers of steps");
            if (st.st_uid != ::geteuid() || (st.st_mode & 077) != 0)
                throw Error(cat(printable(path, 4096), "/steps is open to others; remove it"));
            return out;
        } catch (const Error& error) {
            throw WontJoin(error.what());
        }
    }

    /// By way of the descriptor: an address is at most 108 bytes.
    sockaddr_un address_of(const std::string& name) const {
        sockaddr_un out{};
        out.sun_family = AF_UNIX;
        std::string path = cat("/proc/self/fd/", folder_.get(), "/", name);
        std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
        return out;
    }

    int connect(const Fd& socket, const std::string& name) const {
        sockaddr_un address = address_of(name);
        return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    }

    /// Removes the sockets of helpers that were killed. Who makes one has the lock until it listens.
    void sweep() const {
        for (const std::string& name : sys::list_directory(folder_.get(), "the containers of steps")) {
            if (!name.starts_with(node_) || name.size() != node_.size() + hash_digits) continue;
            if (connect(joint_socket(SOCK_NONBLOCK), name) != 0 && errno == ECONNREFUSED)
                ::unlinkat(folder_.get(), name.c_str(), 0);
        }
    }

    Fd folder_;
    std::string node_;  ///< with which the names of this node's sockets begin
    std::string name_;
};

/// Waits until the helper of another process has said something, or has gone.
void await_answer(int connection) {
    auto until = Clock::now() + start_patience;
    for (pollfd answer{connection, POLLIN, 0};;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        int ready = ::poll(&answer, 1, static_cast<int>(std::max<int64_t>(left, 0)));
        if (ready > 0) return;
        if (ready == 0 || errno != EINTR)
            throw WontJoin(cat("the process that makes the container of the step has not done so in ",
                               start_patience.count(), " s"));
    }
}

}  // namespace

std::string step_in_environment(const std::vector<std::string>& environment) {
    // salloc's shell has a job, and is no task.
    std::string job = value_in(environment, "SLURM_JOB_ID"), step = value_in(environment, "SLURM_STEP_ID");
    if (job.empty() || value_in(environment, "SLURM_TASK_PID").empty()) return {};
    return cat(job, ".", step.empty() ? "batch" : step, "@", value_in(environment, "SLURMD_NODENAME"));
}

std::string step_of_cgroups(std::string_view cgroups) {
    std::string out;
    for (const std::string& line : split(cgroups, '\n')) {
        size_t job = line.find("/job_"), step = line.find("/step_", job == line.npos ? 0 : job);
        if (job == line.npos || step == line.npos) continue;
        // The number of the hierarchy says nothing.
        size_t controllers = line.find(':');
        size_t end = line.find('/', step + 1);
        out += cat(std::string_view(line).substr(0, end).substr(controllers == line.npos ? 0 : controllers), "\n");
    }
    return out;
}

JointContainer use_joint_container(const JointStart& start, ContainerImage& image) {
    Sockets sockets(start, image);
    // What the first process has for itself is nothing of the others'.
    plan::Plan plan = start.plan;
    plan.environment = {};
    plan.command.clear();
    plan.entrypoint.clear();
    std::string what = cat("of step ", printable(start.step.substr(0, start.step.find('@'))));
    for (int i = 0; i < most_tries; ++i) {
        Lock lock = sockets.lock();
        JointContainer out{.connection = sockets.connect(), .joined = {}};
        if (!out.connection) {
            JointPlace place = sockets.listen();
            place.storage = start.storage;
            place.upper_folder = start.upper_folder;
            lock.unlock();
            out.connection =
                start_joint_helper(std::move(place), what, plan, std::move(image), start.site, start.forked);
            out.started = true;
        }
        lock.unlock();
        auto joined = ask_to_join(out.connection.get(), plan::TaskRequest{0, {}, false}, [&] {
            if (!out.started) await_answer(out.connection.get());
        });
        if (!joined && out.started)
            throw Error(cat("starting the container ", what, ": its helper was killed; look for the reason in dmesg"));
        if (!joined) continue;
        out.joined = std::move(*joined);
        out.joined.container.workdir = start.plan.workdir;
        return out;
    }
    throw WontJoin(cat("the container ", what, " ends each time that it is asked"));
}

}  // namespace berth
