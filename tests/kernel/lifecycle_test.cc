// The end of containers, wanted and not: kills at any time, tasks that stay, data that is damaged.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace std::chrono_literals;

namespace {

/// Waits for the end of a child; false when it has not ended in time.
bool ends_within(pid_t child, std::chrono::milliseconds limit) {
    Fd handle = sys::pidfd_open(child);
    pollfd wait{handle.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(limit.count()) * fixtures::slowness()) <= 0) return false;
    ::waitpid(child, nullptr, 0);
    return true;
}

/// Forks a child that acts as the test user and stays until it is killed.
pid_t background(const std::function<void()>& body) {
    // The test runner's handler is not what is tested, and the signal may come as soon as there is a child.
    struct sigaction none {}, runners {};
    ::sigaction(SIGSEGV, &none, &runners);
    pid_t child = fixtures::forked();
    if (child != 0) {
        ::sigaction(SIGSEGV, &runners, nullptr);
        return child;
    }
    as_user_here();
    try {
        body();
    } catch (const std::exception& error) {
        fprintf(stderr, "in the background: %s\n", error.what());
        ::_exit(1);
    }
    for (;;) ::pause();
}

/// A task of the container that executes `inside WORD` and stays.
pid_t lasting_task(const StartedContainer& container, const char* word) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
    Fd reading(ends[0]), writing(ends[1]);
    pid_t task = fixtures::forked();
    if (task == 0) {
        join_container(container);
        // A failed test leaves nothing behind.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(writing.get(), 1);
        ::execl("/bin/inside", "inside", word, nullptr);
        ::_exit(1);
    }
    writing.reset();
    char byte;
    if (::read(reading.get(), &byte, 1) != 1 || byte != 'x') throw Error("the task did not start");
    return task;
}

void fill_many(squash::LayerWriter& writer) {
    fill_sample(writer);
    for (int i = 0; i < 2000; ++i) add_file(writer, cat("dir", i % 40, "/file", i), std::string(3000, 'x'));
}

/// Touches the whole image, so that requests are under way at any moment.
void read_everything() {
    for (;;)
        for (const auto& entry : std::filesystem::recursive_directory_iterator(
                 "/", std::filesystem::directory_options::skip_permission_denied))
            if (entry.path().string().starts_with("/dir") && entry.is_regular_file()) slurp(entry.path());
}

}  // namespace

TEST_CASE("kill -9 at any time of a start leaves no process", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
        ContainerImage image = make_image(fill_many);
        pid_t server = background([&] {
            start_container(plan_for(), std::move(image), {});
            // Like the set-up, the first thread goes on using the tree that its own threads serve.
            read_everything();
        });
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 25000));
        fixtures::kill_one(server, SIGKILL);
        INFO("round " << round);
        REQUIRE(ends_within(server, 2s));
    }
}

TEST_CASE("a crash of the server ends it at once", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    // A core dump waits for all threads, and one that waits for the server would never come: so there must be none.
    for (int round = 0; round < 10; ++round) {
        ContainerImage image = make_image(fill_many);
        pid_t server = background([&] {
            start_container(plan_for(), std::move(image), {});
            read_everything();
        });
        std::this_thread::sleep_for(20ms);
        fixtures::kill_one(server, SIGSEGV);
        REQUIRE(ends_within(server, 2s));
    }
}

TEST_CASE("hostile row 65: when the server is killed its tasks get errors and do not hang", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill_many);
    Outcome seen = as_user([&] {
        auto [mine, others] = make_channel();
        pid_t server = fixtures::forked();
        if (server == 0) {
            StartedContainer container = start_container(plan_for(), std::move(image), {});
            send_message(others.get(), {}, {container.user_namespace.get(), container.mount_namespace.get()});
            for (;;) ::pause();
        }
        StartedContainer container;
        auto received = receive_message(mine.get());
        container.user_namespace = std::move(received->descriptors.at(0));
        container.mount_namespace = std::move(received->descriptors.at(1));
        container.workdir = "/etc";
        return run_task(container, [&] {
            std::string text = in_order({slurp("hello"), cat(getuid()), status_line("CapEff"), status_line("CapBnd")});
            // The task was told nothing of the server's process but stands in its pid namespace.
            fixtures::kill_one(server, SIGKILL);
            for (int i = 0;
                 i < 200 && fixtures::kill_one(server, 0) == 0 &&
                 status_line("State", cat("/proc/", server, "/status"))[0] != 'Z';
                 ++i)
                std::this_thread::sleep_for(10ms);
            Fd fd(::open("/dir1/file1", O_RDONLY | O_CLOEXEC));
            // The second is of a request that was under way when the last thread of the server went.
            return text + " " +
                   (fd                                           ? "opened"
                    : errno == ENOTCONN || errno == ECONNABORTED ? "no server"
                                                                 : reason(errno));
        });
    });
    CHECK_FALSE(seen.hung);
    CHECK(seen.error == "");
    CHECK(seen.text == cat("hello\n ", test_uid(), " 0000000000000000 0000000000000000 no server"));
}

TEST_CASE("the end of a container takes every process of it", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill_sample);
    plan::Plan plan = plan_for();
    // One of the tasks hides in a user namespace of its own.
    plan.system_calls.allow = {"unshare", "clone"};
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), {});
        std::vector<pid_t> tasks;
        for (const char* word : {"stay", "hide", "nest", "detach"}) tasks.push_back(lasting_task(container, word));
        bool all = end_container(container);
        std::string text = all ? "ended" : "left";
        for (pid_t task : tasks) {
            int status = 0;
            text += ::waitpid(task, &status, WNOHANG) == task && WIFSIGNALED(status) ? " killed" : " alive";
        }
        return text;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "ended killed killed killed killed");
}

TEST_CASE("many tasks read at once", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill_many);
    Outcome seen = as_user([&] {
        plan::Site site;
        site.mount.threads = 4;
        StartedContainer container = start_container(plan_for(), std::move(image), site);
        return run_task(container, [] {
            std::vector<pid_t> readers;
            for (int i = 0; i < 8; ++i) {
                pid_t reader = fixtures::forked();
                if (reader == 0) {
                    for (int k = 0; k < 2000; ++k)
                        if (int file = (k * 7 + i * 250) % 2000;
                            slurp(cat("/dir", file % 40, "/file", file)) != std::string(3000, 'x'))
                            ::_exit(1);
                    ::_exit(0);
                }
                readers.push_back(reader);
            }
            int bad = 0;
            for (pid_t reader : readers) {
                int status = 0;
                ::waitpid(reader, &status, 0);
                bad += status != 0;
            }
            return cat(bad);
        });
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "0");
}
