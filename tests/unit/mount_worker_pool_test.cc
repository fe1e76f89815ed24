#include <chrono>

#include "runtime/mount/fuse/worker_pool.hh"
#include "tests/catch.hh"
#include "tests/fixtures/slowness.hh"

using berth::fixtures::comes_true;
using berth::mount::WorkerPool;

namespace {

/// Threads that serve nothing, but rest when they may until `ended`.
struct Idlers {
    std::atomic<bool> ended = false;
    std::atomic<int> started = 0;

    void operator()(WorkerPool& pool) {
        ++started;
        while (!ended) {
            pool.park_if_idle();
            std::this_thread::yield();
        }
    }
};

void serve(WorkerPool& pool, uint32_t count, bool another_waits) {
    for (uint32_t i = 0; i < count; ++i) pool.served(another_waits);
}

bool nobody() { return false; }

}  // namespace

TEST_CASE("threads start when requests wait, at most so many", "[mount]") {
    Idlers idlers;
    WorkerPool pool(2, nobody, [&](WorkerPool& self, size_t) { idlers(self); });
    serve(pool, WorkerPool::behind - 1, true);
    serve(pool, 10 * WorkerPool::idle_requests, false);
    CHECK_FALSE(pool.any_at_work());
    serve(pool, 1, true);
    CHECK(pool.any_at_work());
    serve(pool, 100 * WorkerPool::behind, true);
    CHECK(comes_true([&] { return idlers.started == 2; }));
    idlers.ended = true;
}

TEST_CASE("threads are parked when nothing has waited for long, and come back", "[mount]") {
    Idlers idlers;
    WorkerPool pool(2, nobody, [&](WorkerPool& self, size_t) { idlers(self); });
    serve(pool, 2 * WorkerPool::behind, true);
    REQUIRE(comes_true([&] { return idlers.started == 2; }));
    serve(pool, WorkerPool::idle_requests - 1, false);
    CHECK(pool.any_at_work());
    // Each of them rests after as many calm requests of its own.
    CHECK(comes_true([&] {
        serve(pool, WorkerPool::idle_requests, false);
        return !pool.any_at_work();
    }));
    serve(pool, 2 * WorkerPool::behind, true);
    CHECK(pool.any_at_work());
    serve(pool, 100 * WorkerPool::behind, true);
    CHECK(idlers.started == 2);
    idlers.ended = true;
}

TEST_CASE("a pool whose threads are parked can end", "[mount]") {
    Idlers idlers;
    {
        WorkerPool pool(1, nobody, [&](WorkerPool& self, size_t) { idlers(self); });
        serve(pool, WorkerPool::behind, true);
        CHECK(comes_true([&] {
            serve(pool, WorkerPool::idle_requests, false);
            return !pool.any_at_work();
        }));
        idlers.ended = true;
    }
    CHECK(idlers.started == 1);
}
