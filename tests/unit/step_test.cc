#include <sys/socket.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/step/settings.hh"
#include "runtime/step/tasks.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

/// A task as the plugin is one: joins and sends its request.
struct FakeTask {
    Fd socket;
    FakeTask(int step, uint32_t id) {
        auto [ours, theirs] = make_channel();
        socket = std::move(ours);
        send_message(step, plan::join_message(), {theirs.get()});
        send_message(socket.get(), plan::encode(plan::TaskRequest{id, {"A=1"}}));
    }
};

StepTasks::Answer echo(const plan::TaskRequest& task) {
    return {plan::encode(plan::Failure{"task " + std::to_string(task.local_id), 1, false}), {}};
}

StepTasks::Answer ready(const plan::TaskRequest&) { return {plan::encode(plan::Ready{}), {}}; }

bool wait_for(int socket) {
    pollfd entry{socket, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

TEST_CASE("step: every task gets its own answer", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    FakeTask zero(plugin.get(), 0), one(plugin.get(), 1);
    CHECK(tasks.serve(echo));  // takes both in
    CHECK(tasks.serve(echo));  // answers both
    auto first = receive_message(zero.socket.get(), 1000), second = receive_message(one.socket.get(), 1000);
    REQUIRE((first && second));
    CHECK(plan::decode_failure(first->message).line == "task 0");
    CHECK(plan::decode_failure(second->message).line == "task 1");
    CHECK_FALSE(receive_message(zero.socket.get(), 1000));
}

TEST_CASE("hostile row 68: step: a task that goes before its answer is known to be lost, one that goes after it is not",
          "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    FakeTask zero(plugin.get(), 0), one(plugin.get(), 1);
    CHECK(tasks.accept());
    CHECK_FALSE(tasks.lost());
    SECTION("while something else is done") {
        one.socket.reset();
        CHECK(tasks.lost());
    }
    SECTION("while tasks are answered") {
        one.socket.reset();
        CHECK(tasks.serve(echo));
        CHECK(tasks.lost());
    }
    SECTION("after its answer") {
        CHECK(tasks.serve(echo));
        one.socket.reset();
        CHECK_FALSE(tasks.lost());
    }
}

TEST_CASE("step: the first task can be looked at before it is answered", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    FakeTask zero(plugin.get(), 0);
    CHECK(tasks.first_environment() == std::vector<std::string>{"A=1"});
    CHECK(tasks.serve(echo));
    auto answer = receive_message(zero.socket.get(), 1000);
    REQUIRE(answer);
    CHECK(plan::decode_failure(answer->message).line == "task 0");
    plugin.reset();
    CHECK_FALSE(tasks.first_environment());
}

TEST_CASE("step: the end of the step's socket is seen while and between tasks", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    FakeTask slow(plugin.get(), 0);
    CHECK(tasks.accept());
    plugin.reset();
    CHECK_FALSE(tasks.accept());
    CHECK_FALSE(tasks.serve(echo));
}

TEST_CASE("step: the end of the container ends the service, with the reason that is told", "[step]") {
    auto [plugin, helper] = make_channel();
    auto [server, watched] = make_channel();
    StepTasks tasks(std::move(helper));
    tasks.watch(watched.get());
    FakeTask zero(plugin.get(), 0);
    CHECK(tasks.serve(echo));
    bool told = GENERATE(true, false);
    if (told) send_message(server.get(), plan::encode(plan::Failure{"the file server has gone"}));
    server.reset();
    CHECK_THROWS_WITH(tasks.serve(echo),
                      told ? "the file server has gone"
                           : "the container has ended: it was removed by force, or its helper was killed");
}

TEST_CASE("step: progress goes to one task, also when it comes before any", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    tasks.show("early");
    FakeTask zero(plugin.get(), 0), one(plugin.get(), 1);
    CHECK(tasks.accept());
    tasks.show("late");
    for (const char* line : {"early", "late"}) {
        auto received = receive_message(zero.socket.get(), 1000);
        REQUIRE(received);
        CHECK(received->message.value("text") == line);
    }
    CHECK_THROWS_AS(receive_message(one.socket.get(), 20), SysError);
}

TEST_CASE("step: the log goes to a task that waits, and a few lines of it to slurmstepd while tasks run", "[step]") {
    auto [plugin, helper] = make_channel();
    auto [log, there] = make_channel();
    StepTasks tasks(std::move(helper));
    tasks.show_log(std::move(log));
    auto write = [&](const std::string& line) { ::send(there.get(), line.data(), line.size(), 0); };
    write("before any task");
    tasks.pass_log();
    FakeTask zero(plugin.get(), 0);
    write("while it waits");
    CHECK(tasks.serve(ready));
    for (const char* line : {"before any task", "while it waits"}) {
        auto received = receive_message(zero.socket.get(), 1000);
        REQUIRE(received);
        CHECK(received->message.value("text") == line);
    }
    while (tasks.entered() == 0) CHECK(tasks.serve(ready));
    // slurmstepd would kill a helper that says more than it takes.
    for (int i = 0; i < 100; ++i) write(cat("line ", i));
    tasks.pass_log();
    size_t said = 0;
    std::string last;
    while (wait_for(plugin.get())) {
        last = plan::progress_text(receive_message(plugin.get(), 1000)->message);
        ++said;
    }
    CHECK(said == 10);
    CHECK(said < plan::said_meanwhile);
    CHECK_THAT(last, Catch::Contains("the rest of the log is left out"));
}

TEST_CASE("step: a task that dies or talks nonsense ends alone", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    FakeTask dead(plugin.get(), 0), odd(plugin.get(), 1), good(plugin.get(), 2);
    send_message(odd.socket.get(), plan::progress_message("?"));
    dead.socket.reset();
    tasks.accept();
    tasks.show("for the dead one");
    tasks.show("and again");
    CHECK(tasks.serve(echo));
    auto received = receive_message(good.socket.get(), 1000);
    REQUIRE(received);
    CHECK(plan::decode_failure(received->message).line == "task 2");
}

TEST_CASE("step: tasks of another release are told so, once, and those of another step what they can do",
          "[step][release]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    auto join = [&] {
        auto [ours, theirs] = make_channel();
        Message ask = plan::join_message(), task = plan::encode(plan::TaskRequest{});
        ask.version = task.version = 9;
        send_message(plugin.get(), ask, {theirs.get()});
        send_message(ours.get(), task);
        return std::move(ours);
    };
    Fd zero = join(), one = join();
    CHECK(tasks.serve(echo));
    CHECK(tasks.serve(echo));
    auto first = receive_message(zero.get(), 1000), second = receive_message(one.get(), 1000);
    REQUIRE((first && second));
    plan::Failure told = plan::decode_failure(first->message);
    CHECK_THAT(told.line, Catch::Contains("of this node are of different releases; install both from one release"));
    CHECK_FALSE(told.shown);
    CHECK(plan::decode_failure(second->message).shown);
    CHECK(tasks.entered() == 0);
}

TEST_CASE("step: anything but a join on the step's socket is an error", "[step]") {
    auto [plugin, helper] = make_channel();
    StepTasks tasks(std::move(helper));
    SECTION("another message") {
        send_message(plugin.get(), plan::progress_message("?"));
    }
    SECTION("a join without a socket") {
        send_message(plugin.get(), plan::join_message());
    }
    CHECK_THROWS_AS(tasks.accept(), Error);
}

TEST_CASE("step: hostile row 57: of the job's environment only settings reach the helper", "[step]") {
    auto settings =
        step_settings({"LD_PRELOAD=/evil.so", "PATH=/evil", "https_proxy=http://evil", "BASH_ENV=/evil", "HOME=/evil",
                       "BERTH_LOG=debug", "REGISTRY_AUTH_FILE=/a=b", "REGISTRY_AUTH_FILE=/second", "broken",
                       "LD_LIBRARY_PATH=/evil", "DOCKER_HOST=unix:///d", "AWS_PROFILE=a", "AWS=/evil",
                       "GOOGLE_APPLICATION_CREDENTIALS=/k", "AZURE_CLIENT_ID=i", "MY_AWS_PROFILE=/evil"});
    CHECK(settings == std::vector<std::pair<std::string, std::string>>{
                          {"BERTH_LOG", "debug"},
                          {"REGISTRY_AUTH_FILE", "/a=b"},
                          {"DOCKER_HOST", "unix:///d"},
                          {"AWS_PROFILE", "a"},
                          {"GOOGLE_APPLICATION_CREDENTIALS", "/k"},
                          {"AZURE_CLIENT_ID", "i"}});
}
