#include "runtime/mount/server.hh"

#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse_mount.hh"
#include "runtime/mount/operations.hh"

namespace berth::mount {

namespace {

constexpr unsigned thread_limit = 8;
constexpr unsigned waits_for_a_thread = 16;

/// The server's further threads. One is started for every so many requests that have waited: to wake thread after thread in turn, each on another CPU, would
/// cost a program that asks for one thing after the other half of its time, and even such a one has a few requests waiting, of the kernel's reading ahead.
class Workers {
  public:
    Workers(fuse_session* session, std::vector<Fd> devices) : session_(session), devices_(std::move(devices)) {}
    /// Waits for them: to be called when the session has ended.
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    /// Called by a thread that has finished with a request which came over `device`.
    void start_one_if_behind(int device) noexcept;

  private:
    fuse_session* session_;
    std::vector<Fd> devices_;
    std::atomic<unsigned> waited_ = 0;
    std::atomic<size_t> started_ = 0;
    std::mutex mutex_;
    std::vector<std::jthread> threads_;
};

// Each thread talks to the kernel over its own clone of /dev/fuse, so that threads do not queue for one lock.
thread_local int channel = -1;
thread_local Workers* workers = nullptr;

bool request_waits(int device) {
    pollfd entry{device, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

ssize_t read_channel(int, void* buffer, size_t size, void*) {
    return ::read(channel, buffer, size);
}
ssize_t write_channel(int, iovec* parts, int count, void*) {
    // What is there now came while this thread was at work: after the answer it might be the next request of the same program.
    if (workers != nullptr) workers->start_one_if_behind(channel);
    return ::writev(channel, parts, count);
}

void silent(fuse_log_level, const char*, va_list) {}

unsigned usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

/// Gives the calling thread its own descriptor table that holds only `keep` (and /dev/null as 0, 1 and 2): no socket or pipe of the rest of the
/// process stays open because of the server.
void leave_descriptor_table(std::vector<int> keep) {
    if (int number = sys::unshare(CLONE_FILES); number != 0) throw SysError("giving the file server its own descriptors", number);
    std::sort(keep.begin(), keep.end());
    unsigned from = 3;
    for (int fd : keep) {
        auto kept = static_cast<unsigned>(fd);
        if (kept > from) close_range(from, kept - 1, 0);
        from = std::max(from, kept + 1);
    }
    close_range(from, ~0U, 0);
    Fd null = sys::open_file("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2})
        if (::dup3(null.get(), fd, O_CLOEXEC) < 0) throw SysError("closing the file server's standard streams");
}

/// A descriptor that the server goes on using. The thread sanitizer believes that all threads have one table, and tells of races between two descriptors of one
/// number: so there they get numbers that nobody else has.
Fd apart(Fd fd) {
#ifdef __SANITIZE_THREAD__
    return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 512));
#else
    return fd;
#endif
}

Fd clone_device(int device) {
    Fd fd = apart(open_fuse_device());
    auto source = static_cast<uint32_t>(device);
    if (::ioctl(fd.get(), FUSE_DEV_IOC_CLONE, &source) != 0) throw SysError("cloning the connection of the file server");
    return fd;
}

struct SessionEnd {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using Session = std::unique_ptr<fuse_session, SessionEnd>;

/// Takes `device` over.
Session make_session(Served& served, Fd device) {
    fuse_set_log_func(silent);
    char name[] = "berth";
    char* arguments[] = {name, nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, arguments);
    Session session(fuse_session_new(&args, &operations(), sizeof(fuse_lowlevel_ops), &served));
    // libfuse has made copies.
    fuse_opt_free_args(&args);
    fuse_custom_io io{};
    io.writev = write_channel;
    io.read = read_channel;
    if (!session || fuse_session_custom_io(session.get(), &io, device.get()) != 0)
        throw Error("starting the file server: libfuse refused the session");
    device.release();
    return session;
}

/// Answers requests that come over `device` until the mount has gone.
void answer_requests(fuse_session* session, int device, Workers* others) {
    channel = device;
    workers = others;
    Served* preloading = nullptr;
    fuse_buf request{};
    while (!fuse_session_exited(session)) {
        if (preloading && !request_waits(device)) {
            if (!preloading->preload->store_piece(session, *preloading)) preloading = nullptr;
            continue;
        }
        int got = fuse_session_receive_buf(session, &request);
        if (got == -EINTR || got == -EAGAIN) continue;
        if (got <= 0) break;
        fuse_session_process_buf(session, &request);
        if (!preloading) preloading = take_due_preload();
    }
    fuse_session_exit(session);
    free(request.mem);
}

Workers::~Workers() {
    // The last of them may be starting another one.
    for (std::vector<std::jthread> ended;; ended.clear()) {
        std::lock_guard lock(mutex_);
        if (threads_.empty()) return;
        ended.swap(threads_);
    }
}

void Workers::start_one_if_behind(int device) noexcept {
    size_t number = started_.load(std::memory_order_relaxed);
    if (number >= devices_.size()) return;
    if (!request_waits(device) || ++waited_ % waits_for_a_thread != 0 || !started_.compare_exchange_strong(number, number + 1)) return;
    try {
        std::lock_guard lock(mutex_);
        threads_.emplace_back(answer_requests, session_, devices_[number].get(), this);
    } catch (const std::exception&) {
        // Fewer threads do as well, only slower.
        started_ = devices_.size();
    }
}

/// What start_server hands to the thread it makes.
struct Start {
    std::shared_ptr<const squash::Index> index;
    std::vector<int> layers;
    ServerOptions options;
    int mount_point;
    std::promise<void> mounted;
};

/// The life of the server's main thread. Throws only before `mounted` is set.
void serve(Start& start) {
    std::vector<int> shared = start.layers;
    shared.push_back(start.mount_point);
    std::vector<Fd> layers;
    leave_descriptor_table(shared);
    for (int fd : shared) layers.push_back(apart(Fd(fd)));
    Fd mount_point = std::move(layers.back());
    layers.pop_back();
    std::vector<squash::LayerInfo> about = start.index->layers();
    Served served{*start.index, squash::DataReader(std::move(layers), about, start.options.cache_bytes), start.options.uid,
                  start.options.gid, {}, start.options.preload};

    Fd device = apart(open_fuse_device());
    int first = device.get();
    Session session = make_session(served, std::move(device));
    attach_fuse(first, start.options.uid, start.options.gid, mount_point.get());
    mount_point.reset();
    std::vector<Fd> clones;
    for (unsigned i = 1; i < server_threads(start.options.threads, usable_cpus()); ++i) clones.push_back(clone_device(first));
    if (start.options.confine) start.options.confine();

    Workers others(session.get(), std::move(clones));
    start.mounted.set_value();
    answer_requests(session.get(), first, &others);
}

/// Signals are the business of the program's own threads.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace

unsigned server_threads(unsigned configured, unsigned cpus) {
    return configured != 0 ? configured : std::clamp(cpus, 1U, thread_limit);
}

void try_fuse(uid_t uid, gid_t gid, int mount_point) { attach_fuse(open_fuse_device().get(), uid, gid, mount_point); }

void start_server(std::shared_ptr<const squash::Index> index, const std::vector<Fd>& layers, const ServerOptions& options, int mount_point) {
    // `layers` has the descriptors in this thread's table; the server owns its copies of them in its own.
    auto start = std::make_shared<Start>(Start{std::move(index), {}, options, mount_point, {}});
    for (const Fd& layer : layers) start->layers.push_back(layer.get());
    std::future<void> mounted = start->mounted.get_future();
    {
        SignalsBlocked blocked;
        std::thread([start] {
            try {
                serve(*start);
            } catch (...) {
                start->mounted.set_exception(std::current_exception());
            }
        }).detach();
    }
    mounted.get();
}

}  // namespace berth::mount
