// The container that equal starts of a step share: who joins, deaths while it is made, what is left.
#include "runtime/container/named/joint.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/images/file.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// In a child that acts as the test user.
JointContainer use(const NamedScene& scene, const plan::Plan& plan, const std::string& step = "1.0@n",
                   const std::function<void()>& forked = {}) {
    plan::Caller caller = caller_of_this_process();
    ContainerImage image = open_image_file(scene.image, {});
    JointStart start{.step = step,
                     .plan = plan,
                     .storage = {},
                     .upper_folder = "",
                     .site = scene.site,
                     .caller = caller,
                     .forked = forked};
    return use_joint_container(start, image);
}

plan::Plan read_only_plan() {
    plan::Request request;
    request.writable = false;
    return plan_for(request);
}

std::string namespace_of(const JointContainer& joint) {
    return run_task(joint.joined.container, [] {
        return std::filesystem::read_symlink("/proc/self/ns/user").string();
    });
}

/// The socket's names that are left, without the lock.
std::string sockets(const NamedScene& scene) {
    std::string out;
    for (const auto& entry : std::filesystem::directory_iterator(scene.data + "/steps"))
        if (entry.path().filename() != "lock") out += entry.path().filename().string();
    return out;
}

}  // namespace

TEST_CASE("equal starts of a step are one container until the last has left", "[kernel][joint]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        plan::Plan plan = read_only_plan();
        JointContainer first = use(scene, plan), second = use(scene, plan);
        std::string text = cat(first.started, second.started, namespace_of(first) == namespace_of(second), " ");
        leave(std::move(first.connection));
        text += run_task(second.joined.container, [] { return slurp("/etc/hello"); });
        JointContainer third = use(scene, plan);
        text += cat(third.started, namespace_of(third) == namespace_of(second), " ");
        leave(std::move(second.connection));
        leave(std::move(third.connection));
        JointContainer again = use(scene, plan);
        text += cat(again.started);
        leave(std::move(again.connection));
        return text + sockets(scene);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "101 hello\n01 1");
}

TEST_CASE("another plan, another step and another image file make another container", "[kernel][joint]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        plan::Plan plan = read_only_plan(), writable = plan_for();
        JointContainer first = use(scene, plan);
        std::string text = cat(use(scene, writable).started, use(scene, plan, "1.1@n").started,
                               use(scene, plan, "1.0@other").started, use(scene, plan).started);
        std::filesystem::copy_file(scene.image, scene.image + ".new");
        std::filesystem::rename(scene.image + ".new", scene.image);
        return text + cat(use(scene, plan).started);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "11101");
}

TEST_CASE("a helper that dies before it has started is an error of its maker, and who waits makes the next",
          "[kernel][joint]") {
    NEED_CONTAINERS();
    NamedScene scene;
    int made[2];
    REQUIRE(::pipe2(made, O_CLOEXEC) == 0);
    Fd reading(made[0]), writing(made[1]);
    pid_t maker = fixtures::forked();
    if (maker == 0) {
        try {
            as_user_here();
            use(scene, read_only_plan(), "1.0@n", [&] {
                // It listens. Whoever comes in this time waits for it.
                if (::write(writing.get(), "x", 1) != 1) ::_exit(9);
                ::poll(nullptr, 0, 500);
                ::raise(SIGKILL);
            });
            ::_exit(1);
        } catch (const Error& error) {
            bool told = std::string(error.what()).find("its helper was killed") != std::string::npos;
            ::_exit(told ? 0 : 2);
        }
    }
    char byte;
    REQUIRE(::read(reading.get(), &byte, 1) == 1);
    Outcome seen = as_user([&] {
        JointContainer next = use(scene, read_only_plan());
        std::string text = cat(next.started, " ", run_task(next.joined.container, [] { return slurp("/etc/hello"); }));
        leave(std::move(next.connection));
        return text + sockets(scene);
    });
    int status = 0;
    ::waitpid(maker, &status, 0);
    CHECK(status == 0);
    CHECK(seen.error == "");
    CHECK(seen.text == "1 hello\n");
}

TEST_CASE("a maker that is killed while its helper starts leaves no member without a container", "[kernel][joint]") {
    NEED_CONTAINERS();
    NamedScene scene;
    pid_t maker = fixtures::forked();
    if (maker == 0) {
        as_user_here();
        pid_t parent = ::getpid();
        use(scene, read_only_plan(), "1.0@n", [parent] { fixtures::kill_one(parent, SIGKILL); });
        ::_exit(1);
    }
    int status = 0;
    ::waitpid(maker, &status, 0);
    CHECK(WIFSIGNALED(status));
    Outcome seen = as_user([&] {
        JointContainer next = use(scene, read_only_plan());
        std::string text = run_task(next.joined.container, [] { return slurp("/etc/hello"); });
        leave(std::move(next.connection));
        return text + sockets(scene);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "hello\n");
}

TEST_CASE("a folder of sockets that is open to others is not used", "[kernel][joint]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        std::string text;
        auto refused = [&] {
            try {
                use(scene, read_only_plan());
                return std::string("used");
            } catch (const WontJoin& reason) {
                return std::string(reason.what());
            }
        };
        ContainerFolder::open(scene.data);
        ::mkdir((scene.data + "/steps").c_str(), 0755);
        text += refused();
        ::rmdir((scene.data + "/steps").c_str());
        ::mkdir((scene.data + "/real").c_str(), 0700);
        std::filesystem::create_directory_symlink("real", scene.data + "/steps");
        return text + " " + refused();
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::Contains("/steps is open to others; remove it") && !Catch::Contains("used"));
}
