// What a rank of a bulk-synchronous program loses to others on its CPUs: a thread on each CPU of the affinity mask does
// the same fixed work, all wait for the slowest one, and so on. usage: noise [ROUNDS]; prints as JSON, in microseconds,
// the time of all rounds and the median, the 99.9th percentile and the longest of a round.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

/// Some 1.5 ms of a processor of 2.5 GHz: each step waits for the one before.
constexpr int steps = 1'000'000;

uint64_t work(uint64_t value) {
    for (int i = 0; i < steps; ++i) value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    return value;
}

/// All threads pass together. They wait without a system call, as MPI libraries do.
class Barrier {
  public:
    explicit Barrier(size_t threads) : threads_(threads) {}
    void wait() {
        uint64_t round = round_.load();
        if (arrived_.fetch_add(1) + 1 == threads_) {
            arrived_ = 0;
            ++round_;
        }
        while (round_.load() == round) continue;
    }

  private:
    const size_t threads_;
    std::atomic<size_t> arrived_ = 0;
    std::atomic<uint64_t> round_ = 0;
};

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> out;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
    return out;
}

void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

int main(int argc, char** argv) {
    const size_t rounds = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2000;
    const std::vector<int> cpus = allowed_cpus();
    if (rounds == 0 || cpus.empty()) return std::fprintf(stderr, "usage: noise [ROUNDS]\n"), 2;
    Barrier barrier(cpus.size());
    std::atomic<uint64_t> sink = 0;
    std::vector<double> times;
    auto measure = [&](size_t number) {
        using Clock = std::chrono::steady_clock;
        pin(cpus[number]);
        uint64_t value = number;
        barrier.wait();
        for (size_t i = 0; i < rounds; ++i) {
            auto start = Clock::now();
            value = work(value);
            barrier.wait();
            if (number == 0) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
        }
        sink += value;
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < cpus.size(); ++i) threads.emplace_back(measure, i);
    measure(0);
    for (std::thread& thread : threads) thread.join();
    double all = 0;
    for (double time : times) all += time;
    std::sort(times.begin(), times.end());
    std::printf("{\"all\": %.1f, \"median\": %.1f, \"p999\": %.1f, \"longest\": %.1f, \"cpus\": %zu}\n", all,
                times[rounds / 2], times[rounds - 1 - rounds / 1000], times.back(), cpus.size());
    return sink == 1 ? 1 : 0;
}
