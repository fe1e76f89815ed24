#include "runtime/container/named/helper.hh"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <list>
#include <utility>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/channel.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/memory_room.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/container/task_process.hh"
#include "runtime/sandbox/processes.hh"
#include "runtime/store/scratch.hh"

namespace berth {

namespace {

constexpr int last_answer_ms = 60'000;
constexpr int previous_helper_ms = 15'000;
constexpr auto survivors_patience = std::chrono::seconds(5);

/// Answers those who join, ask or stop the container.
class Helper {
  public:
    /// `life_line`: -1, or a connection that becomes readable when the container must end, see reason_of_end().
    Helper(Fd listener, Fd first, const plan::Plan& plan, const StartedContainer& container, int life_line = -1)
        : listener_(std::move(listener)), plan_(plan), container_(container), life_line_(life_line) {
        clients_.push_back({.socket = std::move(first), .starter = true});
    }

    /// Whoever started the container ends it, also by its death, whoever else is in it.
    void end_with_first() { clients_.front().vital = true; }

    /// Until nobody is left; `closing` is called while the listener is still there. The connections of the last ones
    /// stay open as long as this object, so that they can wait for the container's end.
    void serve(const std::function<void()>& closing = {}) {
        while (!stopping_ &&
               std::any_of(clients_.begin(), clients_.end(), [](const Client& client) { return !client.gone; })) {
            clients_.remove_if([](const Client& client) { return client.gone; });
            std::vector<pollfd> waiting = {{listener_.get(), POLLIN, 0}};
            for (const Client& client : clients_)
                waiting.push_back(
                    {client.socket.get(), static_cast<short>(POLLIN | (client.outbox.empty() ? 0 : POLLOUT)), 0});
            waiting.push_back({life_line_, POLLIN, 0});
            if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
            if (waiting.back().revents != 0) report_end();
            size_t position = 0;
            for (Client& client : clients_)
                if (waiting[++position].revents != 0) handle(client);
            if (waiting[0].revents != 0) accept();
        }
        if (closing) closing();
        // Whoever connects from here on must find out that he is late.
        listener_.reset();
    }

  private:
    struct Client {
        Fd socket;
        Inbox inbox = {};
        Outbox outbox = {};
        bool gone = false;
        bool starter = false;  ///< not yet told how long the parts of the start took
        bool vital = false;    ///< see end_with_first()
    };

    void report_end() {
        stopping_ = true;
        Message why = plan::encode(plan::Failure{reason_of_end(life_line_)});
        for (Client& client : clients_) client.outbox.push(why);
        for (Client& client : clients_) handle(client);
    }

    void add(Fd socket) { clients_.push_back({std::move(socket)}); }

    void accept() {
        Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ucred peer{};
        socklen_t size = sizeof peer;
        // The folder is closed to others; a descriptor that was passed on is not.
        if (socket && ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
            peer.uid == plan_.identity.inside_uid)
            add(std::move(socket));
    }

    /// Whatever is wrong with one connection ends that one alone.
    void handle(Client& client) {
        try {
            Inbox::Status status = client.inbox.read(client.socket.get());
            if (status == Inbox::Status::closed) client.gone = true;
            if (status == Inbox::Status::message) answer(client, client.inbox.take().message);
            if (!client.gone) client.outbox.flush(client.socket.get());
        } catch (const Error&) {
            client.gone = true;
        }
        if (client.gone && client.vital) stopping_ = true;
    }

    void answer(Client& client, const Message& message) {
        if (plan::is(message, plan::MessageType::stop)) {
            stopping_ = true;
        } else if (plan::is(message, plan::MessageType::status)) {
            ino_t inode = sys::stat_of(container_.user_namespace.get(), "the user namespace").st_ino;
            client.outbox.push(plan::encode(plan::HelperInfo{inode, started_, own_memory(container_.proc.get())}));
        } else if (auto refusal = plan::refusal_of(message)) {
            client.outbox.push(plan::encode(*refusal));
        } else {
            plan::TaskRequest task = plan::decode_task(message);
            plan::Ready ready = ready_of(plan_, container_, task);
            ready.environment = plan::environment_changes(plan_.environment, task.environment);
            if (std::exchange(client.starter, false)) ready.phases = container_.phases;
            client.outbox.push(plan::encode(ready), namespaces_of(container_));
        }
    }

    Fd listener_;
    const plan::Plan& plan_;
    const StartedContainer& container_;
    int life_line_;
    int64_t started_ = std::time(nullptr);
    std::list<Client> clients_;
    bool stopping_ = false;
};

/// Nothing of the terminal and the pipes of whoever was first stays open because of the helper.
void leave_session() {
    ::setsid();
    ::signal(SIGPIPE, SIG_IGN);
    sys::point_at_null({0, 1, 2});
}

/// Signals for the tasks of a step reach it as well, where Slurm sends them to all processes. A task that saves its
/// work then still needs its files; this process ends with the last of them. Before there are threads.
void leave_signals_to_tasks() {
    sigset_t signals = forwarded_signals();
    ::sigprocmask(SIG_SETMASK, &signals, nullptr);
}

/// Waits for the end of the run before this one. The result holds off the next one; the file says how this run's mounts
/// are called.
Lock take_turn(const ContainerFolder& folder, const std::string& name, std::string& source) {
    Lock running = lock_after_last_run(folder, name, previous_helper_ms);
    if (!running)
        throw Error(
            cat("starting container ", name, ": its last run has not ended yet; see berth ps, or berth rm --force"));
    source = cat("berth:", name, ":", store::scratch_name());
    if (sys::uninterrupted([&] { return ::ftruncate(running.fd(), 0); }) != 0 ||
        ::lseek(running.fd(), 0, SEEK_SET) != 0)
        throw SysError(cat("starting container ", name));
    sys::write_all(running.fd(), source, cat("the state of container ", name));
    return running;
}

struct HelperOrder {
    const ContainerFolder* folder;  ///< null for a joint one
    const std::string& name;
    const plan::Plan& plan;
    ContainerImage image;
    const plan::Site& site;
    std::optional<JointPlace> joint = {};
    const InstancePlace* instance = nullptr;
    Fd other = Fd();  ///< see start_helper_beside()
    std::optional<EarlyPull> early = {};
    KeeperPipes* pipes = nullptr;
};

/// The files, their lock and their file server are the other container's.
void run_beside(HelperOrder& order, Fd& connection) {
    StartedContainer container = start_container(order.plan, std::move(order.image), order.site);
    Helper helper({}, std::move(connection), order.plan, container, order.other.get());
    helper.serve();
    end_container(container);
    leave(std::move(order.other));
}

/// Goes on with a pull whose step may end before the container does. Before there are namespaces and threads.
Pid keep_pulling(HelperOrder& order, int connection) {
    if (!order.early) return {};
    order.pipes->keep_those_of_helper();
    squash::ComingLayers& coming = order.image.coming;
    coming.map->set_lifeline(order.pipes->lifeline());
    // The start waits for parts of the image for as long as somebody wants it.
    coming.interrupted = [connection] {
        pollfd starter{connection, 0, 0};
        return ::poll(&starter, 1, 0) > 0;
    };
    return start_pull_keeper(*order.early, *order.pipes);
}

/// Where Slurm lets this process run, which serves the tasks on other CPUs as well; where that cannot be, it stays on
/// those of the first.
void use_all_cpus() {
    constexpr size_t most = 8192;
    std::array<unsigned char, most / 8> all;
    all.fill(0xff);
    (void)::sched_setaffinity(0, all.size(), reinterpret_cast<cpu_set_t*>(all.data()));
}

/// Takes the socket's name away, once, while the listener is still there: a name that is here later is another's.
class SocketName {
  public:
    explicit SocketName(const JointPlace& place) : place_(&place) {}
    SocketName(const SocketName&) = delete;
    SocketName& operator=(const SocketName&) = delete;
    ~SocketName() { remove(); }
    void remove() {
        if (const JointPlace* place = std::exchange(place_, nullptr))
            ::unlinkat(place->folder.get(), place->socket.c_str(), 0);
    }

  private:
    const JointPlace* place_;
};

void run_joint(HelperOrder& order, Fd& connection) {
    JointPlace& place = *order.joint;
    SocketName name(place);
    use_all_cpus();
    DiskUpper upper(place.upper_folder);
    ContainerStorage storage = place.upper_folder.empty() ? place.storage : upper.storage();
    StartedContainer container = start_container(order.plan, std::move(order.image), order.site, storage);
    Helper helper(std::move(place.listener), std::move(connection), order.plan, container);
    helper.serve([&] { name.remove(); });
    end_container(container);
    upper.remove();
}

/// The container's folder goes with it. What a helper that was killed has left of it tells the next start so.
void run_instance(HelperOrder& order, Fd& connection) {
    const ContainerFolder& folder = *order.folder;
    DiskUpper upper(order.instance->upper_folder);
    ContainerStorage storage = order.instance->upper_folder.empty() ? order.instance->storage : upper.storage();
    Lock running = take_turn(folder, order.name, storage.source);
    Fd listener = folder.listen(order.name);
    use_all_cpus();
    StartedContainer container = start_container(order.plan, std::move(order.image), order.site, storage);
    Helper helper(std::move(listener), std::move(connection), order.plan, container);
    helper.end_with_first();
    helper.serve();
    bool ended = end_container(container);
    upper.remove();
    if (ended) folder.discard(order.name);
}

void run_helper(HelperOrder& order, Fd& connection) {
    leave_session();
    leave_signals_to_tasks();
    if (order.joint) return run_joint(order, connection);
    if (order.instance) return run_instance(order, connection);
    if (order.other) return run_beside(order, connection);
    const ContainerFolder& folder = *order.folder;
    ContainerStorage storage{folder.path_of(order.name)};
    Lock running = take_turn(folder, order.name, storage.source);
    Fd listener = folder.listen(order.name);
    Pid keeper = keep_pulling(order, connection.get());
    StartedContainer container = start_container(order.plan, std::move(order.image), order.site, storage);
    Helper helper(std::move(listener), std::move(connection), order.plan, container);
    helper.serve();
    // An empty file: nothing of this run is left.
    if (end_container(container) && sys::uninterrupted([&] { return ::ftruncate(running.fd(), 0); }) != 0)
        throw SysError(cat("ending container ", order.name));
}

/// The life of the helper. Never returns.
[[noreturn]] void be_helper(HelperOrder order, Fd connection) {
    std::optional<Error> failure;
    try {
        run_helper(order, connection);
    } catch (const Error& error) {
        failure = error;
    } catch (const std::exception& error) {
        failure = Error(cat("starting container ", order.name, ": ", error.what()));
    }
    try {
        // Taken over by the server once the container runs; then there is nobody left to tell. The request is read
        // first: a socket that is closed with something unread in it takes back what was sent.
        if (failure && connection && receive_message(connection.get(), last_answer_ms))
            send_message(connection.get(), plan::encode(plan::Failure{failure->what(), failure->exit_code()}), {},
                         last_answer_ms);
    } catch (const Error&) {
        // Who started it has gone.
    }
    ::_exit(failure ? exit_failure : 0);
}

}  // namespace

Lock lock_after_last_run(const ContainerFolder& folder, const std::string& name, int timeout_ms) {
    Lock running = folder.running_lock(name, timeout_ms);
    if (!running) return running;
    std::string left = sys::read_all(running.fd(), 4096, "the state of a container's run");
    if (!left.empty() &&
        !sandbox::kill_users_of_root(sys::open_file("/proc", O_RDONLY | O_DIRECTORY).get(), left, survivors_patience))
        throw Error(cat("ending the last run of container ", name,
                        ", whose helper was killed: processes of it cannot be ended; try again"));
    return running;
}

plan::Ready ready_of(const plan::Plan& plan, const StartedContainer& container, const plan::TaskRequest& task) {
    plan::Ready out{container.workdir, {}, container.seccomp_program};
    for (const OwnNamespace& own : container.namespaces) out.namespaces.push_back(static_cast<uint32_t>(own.type));
    out.remap_root = plan.remap_root;
    out.writable = plan.writable;
    out.capabilities = container.capabilities;
    out.entrypoint = plan.entrypoint;
    out.devices = plan.devices;
    if (task.asks_for_devices) out.found = plan::FoundDevices{plan.granted, plan.environment.image};
    out.mount_home = plan.mount_home;
    out.mounts = plan.mounts;
    out.nested = plan.nested;
    return out;
}

std::vector<int> namespaces_of(const StartedContainer& container) {
    std::vector<int> out = {container.user_namespace.get(), container.mount_namespace.get()};
    for (const OwnNamespace& own : container.namespaces) out.push_back(own.fd.get());
    return out;
}

namespace {

/// `lock`: the caller's, which is not the child's.
Fd fork_helper(HelperOrder order, Lock* lock, const std::function<void()>& forked) {
    auto&& [ours, its] = make_channel();
    Fd log = debug::socket_for_child();
    pid_t child = ::fork();
    if (child < 0) throw SysError(cat("starting the helper of container ", order.name));
    if (child > 0) return std::move(ours);
    if (lock) lock->unlock();
    ours.reset();
    if (forked) forked();
    if (log) debug::start("berth helper", std::move(log));
    be_helper(std::move(order), std::move(its));
}

}  // namespace

Fd start_helper(const ContainerFolder& folder, const std::string& name, const plan::Plan& plan, HelperImage image,
                const plan::Site& site, Lock& lock, const std::function<void()>& forked) {
    HelperOrder order{.folder = &folder, .name = name, .plan = plan, .image = std::move(image.image), .site = site};
    order.early = std::move(image.early);
    order.pipes = image.pipes;
    Fd out = fork_helper(std::move(order), &lock, forked);
    if (image.pipes != nullptr) image.pipes->keep_those_of_starter();
    return out;
}

Fd start_helper_beside(const ContainerFolder& folder, const std::string& name, const plan::Plan& plan,
                       ContainerImage image, const plan::Site& site, Fd other, const std::function<void()>& forked) {
    return fork_helper({.folder = &folder,
                        .name = name,
                        .plan = plan,
                        .image = std::move(image),
                        .site = site,
                        .other = std::move(other)},
                       nullptr, forked);
}

Fd start_instance_helper(const ContainerFolder& folder, const plan::Plan& plan, const std::string& name,
                         ContainerImage image, const plan::Site& site, const InstancePlace& place, Lock& lock) {
    return fork_helper({.folder = &folder,
                        .name = name,
                        .plan = plan,
                        .image = std::move(image),
                        .site = site,
                        .instance = &place},
                       &lock, {});
}

Fd start_joint_helper(JointPlace place, const std::string& what, const plan::Plan& plan, ContainerImage image,
                      const plan::Site& site, const std::function<void()>& forked) {
    return fork_helper({.folder = nullptr,
                        .name = what,
                        .plan = plan,
                        .image = std::move(image),
                        .site = site,
                        .joint = std::move(place)},
                       nullptr, forked);
}

}  // namespace berth
