#include "runtime/mount/fuse/server.hh"

#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/cpus.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/base/thread_buffer.hh"
#include "runtime/mount/fuse/busy_poll.hh"
#include "runtime/mount/fuse/channel.hh"
#include "runtime/mount/fuse/fuse_mount.hh"
#include "runtime/mount/fuse/late_reads.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/mount/fuse/session.hh"
#include "runtime/mount/fuse/slow_requests.hh"
#include "runtime/mount/fuse/worker_pool.hh"

namespace berth::mount {

namespace {

/// One of them may wait for a layer's file system that does not answer.
constexpr unsigned thread_minimum = 2;
constexpr unsigned thread_limit = 8;

/// Gives the calling thread its own descriptor table that holds only `keep` (and /dev/null as 0, 1 and 2): no socket or
/// pipe of the rest of the process stays open because of the server.
void leave_descriptor_table(std::vector<int> keep) {
    if (int number = sys::unshare(CLONE_FILES); number != 0)
        throw SysError("giving the file server its own descriptors", number);
    sys::close_descriptors_except(std::move(keep));
    sys::point_at_null({0, 1, 2}, O_CLOEXEC);
}

/// A descriptor that the server goes on using. The thread sanitizer believes that all threads have one table, and tells
/// of races between two descriptors of one number: so there they get numbers that nobody else has.
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
    if (::ioctl(fd.get(), FUSE_DEV_IOC_CLONE, &source) != 0)
        throw SysError("cloning the connection of the file server");
    return fd;
}

/// receive() for the thread that always serves: it watches for the next request for a while where that is likely to
/// come.
bool receive_soon(fuse_session* session, fuse_buf& request, BusyPoll& poll, const WorkerPool& others) {
    using Clock = std::chrono::steady_clock;
    auto since = Clock::now();
    // Where others wait in the kernel, it would wake one of them all the same.
    bool watches = poll.worthwhile() && !others.any_at_work();
    // Whoever else wants this CPU has it.
    while (watches && !request_waits() && Clock::now() - since < poll.limit()) ::sched_yield();
    bool interrupted = watches && Clock::now() - since > 5 * poll.limit();
    bool got = receive(session, request);
    if (!others.any_at_work()) poll.waited(Clock::now() - since, watches);
    if (interrupted) poll.was_interrupted();
    return got;
}

void process(fuse_session* session, fuse_buf& request, WorkerPool& others, SlowRequests* slow) {
    WorkerPool::AtRequest busy(others);
    if (slow == nullptr) return fuse_session_process_buf(session, &request);
    auto place = slow->begins(request.mem, request.size);
    fuse_session_process_buf(session, &request);
    slow->ends(place);
}

/// Of a file or directory of the image, as seen in the container; empty when it is none of the first `depth` levels.
std::string path_in(const squash::Index& index, uint32_t directory, uint64_t wanted, unsigned depth = 64) {
    if (depth == 0) return {};
    for (uint32_t i = 0; i < index.entry_count(directory); ++i) {
        auto entry = index.entry(directory, i);
        if (!entry) continue;
        std::string below = entry->inode == wanted ? "" : path_in(index, entry->inode, wanted, depth - 1);
        if (entry->inode == wanted || !below.empty()) return cat('/', entry->name, below);
    }
    return {};
}

std::string path_of(const Served& served, uint64_t inode) try {
    std::shared_lock lock(served.in_use);
    return path_in(served.index, FUSE_ROOT_ID, inode);
} catch (const std::exception&) {
    return {};
}

/// Answers requests that come over `device`, each got by next(fuse_buf&), until the mount has gone.
template <class Receive>
void answer_requests(fuse_session* session, int device, WorkerPool& others, SlowRequests* slow, const Receive& next) {
    use_channel(session, device, &others);
    fuse_buf request{};
    while (!fuse_session_exited(session)) {
        if (!next(request)) break;
        process(session, request, others, slow);
    }
    fuse_session_exit(session);
    free(request.mem);
}

/// The life of a further thread.
void work(fuse_session* session, int device, WorkerPool& others, const Served& served, SlowRequests* slow) {
    ThreadBuffer::set_owner(&served);
    answer_requests(session, device, others, slow, [&](fuse_buf& request) {
        others.park_if_idle();
        return receive(session, request);
    });
}

/// When nothing was read for a while: what the server keeps is charged to the job, and comes back at the next read.
void give_memory_back(Served& served) {
    // A request in progress may wait for ever; nothing waits for it.
    std::unique_lock lock(served.in_use, std::try_to_lock);
    if (!lock) return;
#ifdef __GLIBC__
    // The heap of a thread keeps what is free at its end, up to a limit that grows with the largest buffer that was
    // ever freed, as of an index that was built here, and malloc_trim() does not look at it (mallopt(3)).
    ::mallopt(M_MMAP_THRESHOLD, 2 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 256 << 10);
#endif
    served.data.shrink();
    served.index.shrink();
    ThreadBuffer::forget(&served);
#ifdef __GLIBC__
    // Blocks were many pieces of the heaps of several threads.
    ::malloc_trim(0);
    // While much is read, they go to and fro.
    ::mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

/// What start_server hands to the thread it makes.
struct ThreadStart {
    std::shared_ptr<const squash::Index> index;
    std::vector<int> layers;
    ServerOptions options;
    int mount_point;
    std::promise<void> mounted;
};

/// The life of the server's main thread. Throws only before `mounted` is set.
void serve(ThreadStart& start) {
    std::vector<int> shared = start.layers;
    shared.push_back(start.mount_point);
    std::vector<Fd> layers;
    std::vector<int> kept = shared;
    if (start.index->descriptor() >= 0) kept.push_back(start.index->descriptor());
    if (const auto& map = start.options.coming.map; map && map->lifeline() >= 0)
        kept.push_back(map->lifeline());
    kept.push_back(start.options.prefetcher);
    kept.push_back(debug::descriptor());
    leave_descriptor_table(kept);
    for (int fd : shared) layers.push_back(apart(Fd(fd)));
    Fd mount_point = std::move(layers.back());
    layers.pop_back();
    std::vector<squash::LayerInfo> about = start.index->layers();
    Served served{*start.index,
                  squash::DataReader(std::move(layers), about, start.options.cache_bytes, start.options.coming,
                                     start.options.guards),
                  start.options.uid,
                  start.options.gid,
                  start.options.modes,
                  start.options.shows_marks,
                  start.options.kind};
    ThreadBuffer::set_owner(&served);
    served.reads = start.options.reads.get();
    served.prefetcher = start.options.prefetcher;
    served.guesser = start.options.guesser;
    served.sweeper = start.options.sweeper;

    Fd device = apart(open_fuse_device());
    int first = device.get();
    Session session = make_session(served, std::move(device));
    attach_fuse(first, start.options.uid, start.options.gid, mount_point.get());
    mount_point.reset();
    std::vector<Fd> clones;
    unsigned cpus = usable_cpus();
    for (unsigned i = 1; i < server_threads(start.options.threads, cpus); ++i)
        clones.push_back(clone_device(first));
    if (start.options.confine) start.options.confine();
    std::optional<LateReads> late;
    if (start.options.coming.map) served.late = &late.emplace(session.get(), served);

    std::optional<SlowRequests> slow;
    if (debug::is_on())
        slow.emplace([&served](uint64_t inode) { return path_of(served, inode); },
                     [](const std::string& line) { debug::log("file server", line); });
    SlowRequests* watched = slow ? &*slow : nullptr;
    WorkerPool others(clones.size(), [first] { return request_waits(first); },
                      [&](WorkerPool& workers, size_t number) {
                          work(session.get(), clones[number].get(), workers, served, watched);
                      },
                      [&, told = false]() mutable {
                          give_memory_back(served);
                          // The start is over: with the files that it has read the next one is faster.
                          bool knows = served.guesser != 0 && served.reads != nullptr && served.reads->is_decided();
                          if (knows && !std::exchange(told, true))
                              tell_list(served.prefetcher, squash::merged({}, served.reads->reads()));
                      });
    // Where there is one CPU, to watch would keep the program from asking.
    BusyPoll poll(cpus > 1 ? start.options.busy_poll : std::chrono::microseconds{});
    debug::log("file server", "layers ", about.size(), ", files ", served.index.inode_count(), ", threads at most ",
               clones.size() + 1, ", cache bytes ", start.options.cache_bytes);
    start.mounted.set_value();
    answer_requests(session.get(), first, others, watched,
                    [&](fuse_buf& request) { return receive_soon(session.get(), request, poll, others); });
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
    return configured != 0 ? std::max(configured, thread_minimum) : std::clamp(cpus, thread_minimum, thread_limit);
}

void try_fuse(uid_t uid, gid_t gid, int mount_point) { attach_fuse(open_fuse_device().get(), uid, gid, mount_point); }

void start_server(std::shared_ptr<const squash::Index> index, const std::vector<Fd>& layers,
                  const ServerOptions& options, int mount_point) {
    // `layers` has the descriptors in this thread's table; the server owns its copies of them in its own.
    auto start = std::make_shared<ThreadStart>(ThreadStart{
        .index = std::move(index), .layers = {}, .options = options, .mount_point = mount_point, .mounted = {}});
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
