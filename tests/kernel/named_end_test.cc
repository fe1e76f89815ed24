// How named containers end: killed, refused, removed.
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/sandbox/processes.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("a helper that is killed leaves a container that starts again, and nothing that still writes to it",
          "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer used = scene.use("c");
        pid_t helper = 0;
        // The helper is the one child of this process.
        helper = static_cast<pid_t>(std::stol(slurp(cat("/proc/self/task/", ::getpid(), "/children"))));
        run_task(used.joined.container, [] { return write_to("/kept", "kept"); });
        pid_t survivor = fixtures::forked();
        if (survivor == 0) {
            join_container(used.joined.container);
            for (;;) ::pause();
        }
        ::poll(nullptr, 0, 100);
        fixtures::kill_one(helper, SIGKILL);
        ::waitpid(helper, nullptr, 0);
        char byte;
        std::string text = cat(::read(used.connection.get(), &byte, 1), " ");
        text += scene.run("c", [] { return slurp("/kept"); });
        int status = 0;
        ::waitpid(survivor, &status, 0);
        return text + cat(" ", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "0 kept 9");
}

TEST_CASE("a helper that is killed leaves nothing behind that berth rm does not end", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer used = scene.use("c");
        auto helper = static_cast<pid_t>(std::stol(slurp(cat("/proc/self/task/", ::getpid(), "/children"))));
        pid_t survivor = start_waiting_task(used.joined.container);
        fixtures::kill_one(helper, SIGKILL);
        ::waitpid(helper, nullptr, 0);
        std::string text = scene.program("berth", {"rm", "c"});
        int status = 0;
        pid_t ended = ::waitpid(survivor, &status, WNOHANG);
        fixtures::kill_one(survivor, SIGKILL);
        return text + cat(" ", ended == survivor && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "|0 9");
    CHECK(scene.left() == "locks");
}

TEST_CASE("a command ends with the berth run that is killed, and the container with it", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        Beside run(scene.command("berth", {"run", "--name", "c", scene.image, "/bin/inside", "stay"}));
        char byte = 0;
        if (::read(run.output(), &byte, 1) != 1) throw Error("the command did not start");
        run.send(SIGKILL);
        run.wait();
        // The command's standard output closes with it.
        pollfd wait{run.output(), POLLIN, 0};
        std::string text = ::poll(&wait, 1, 5000) == 1 && ::read(run.output(), &byte, 1) == 0 ? "ended " : "stays ";
        return text + (scene.containers().running_lock("c", 5000) ? "free" : "held");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "ended free");
}

TEST_CASE("hostile row 69: who attaches while the owner exits joins, or gets one line", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string ids = cat(" uid=", test_uid(), " gid=", test_gid(), " euid=", test_uid(), "\n|0");
    CHECK_THAT(scene.program("berth", {"run", "--name", "c", scene.image, "inside"}), Catch::EndsWith("|0"));
    int joined = 0, refused = 0;
    // On a loaded machine the owner ends late: further guests come after its signal, each later than the one before.
    constexpr int usual_rounds = 24, most_rounds = 400;
    for (int round = 0; round < usual_rounds || (refused == 0 && round < most_rounds); ++round) {
        bool only_running = round % 2 == 0;
        Outcome seen = as_user([&] {
            Beside owner(scene.command("berth", {"run", "--name", "c", scene.image, "/bin/inside", "stay"}));
            char byte = 0;
            if (::read(owner.output(), &byte, 1) != 1) throw Error("the owner did not start");
            std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
            std::vector<std::string> asked{"exec", "c", "inside", "x"};
            if (only_running) asked = {"run", "--name", "c:exec", scene.image, "inside", "x"};
            for (const std::string& word : scene.command("berth", asked)) words.push_back(word);
            int end = round % 4 < 2 ? SIGTERM : SIGKILL, late = round - usual_rounds;
            if (late >= 0) owner.send(end), ::usleep(static_cast<useconds_t>(late * 2000));
            Beside guest(words);
            // From before the guest has asked until after it has left.
            if (late < 0) ::usleep(static_cast<useconds_t>(round / 2 * 2000)), owner.send(end);
            std::string text = sys::read_all(guest.output(), 1 << 16, "the output");
            text += cat("|", code_of(guest.wait()));
            owner.wait();
            return text;
        });
        INFO("round " << round << ": " << seen.text);
        REQUIRE(seen.error == "");
        REQUIRE_FALSE(seen.hung);
        if (seen.text == "inside x" + ids) {
            ++joined;
            continue;
        }
        ++refused;
        CHECK_THAT(seen.text, Catch::StartsWith("berth: ") && Catch::EndsWith("\n|125"));
        CHECK(std::count(seen.text.begin(), seen.text.end(), '\n') == 1);
    }
    // Both happen, or the moments are not those that the test is about.
    CHECK(joined > 0);
    CHECK(refused > 0);
    CHECK_THAT(scene.program("berth", {"rm", "--force", "c"}), Catch::EndsWith("|0"));
    CHECK(scene.left() == "locks");
}

TEST_CASE("a container that cannot be started the first time is not kept", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    plan::Request request;
    request.workdir = "/missing";
    Outcome failed = scene.outcome("c", [] { return std::string(); }, request);
    CHECK_THAT(failed.error, Catch::Contains("/missing"));
    CHECK(failed.exit_code == 125);
    CHECK(scene.left() == "locks");
    // One that was there before is.
    CHECK(scene.outcome("c", [] { return write_to("/kept", "kept"); }).text == "ok");
    CHECK(scene.outcome("c", [] { return std::string(); }, request).exit_code == 125);
    CHECK(scene.outcome("c", [] { return slurp("/kept"); }).text == "kept");
}

TEST_CASE("a container's files belong to just the image that it was made of", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    CHECK(scene.outcome("c", [] { return std::string("x"); }).text == "x");
    std::filesystem::resize_file(scene.image, std::filesystem::file_size(scene.image) + 4096);
    CHECK_THAT(scene.outcome("c", [] { return std::string("x"); }).error,
               Catch::Contains("the file has changed since the container was made of it"));
}

TEST_CASE("a file system that cannot hold an overlay's files is named with what to do, and found by trying",
          "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    for (const char* name : {"lower", "upper", "work", "data"}) scene.folder.directory(name);
    Outcome failed = as_user([&] {
        sandbox::enter_user_namespace({test_uid(), test_uid(), test_gid(), test_gid()});
        std::string options = cat("userxattr,lowerdir=", scene.folder / "lower", ",upperdir=", scene.folder / "upper",
                                  ",workdir=", scene.folder / "work");
        if (::mount("none", scene.data.c_str(), "overlay", 0, options.c_str()) != 0)
            throw SysError("mounting an overlay for the test");
        ::chmod(scene.data.c_str(), 0700);
        return scene.run("c", [] { return std::string("started"); });
    });
    CHECK(failed.text == "");
    CHECK_THAT(failed.error, Catch::Contains(cat("keeping the container's files in ", scene.data,
                                                 "/global_c: its file system cannot hold what an overlay writes")) &&
                                 Catch::Contains("set data.path or BERTH_DATA_PATH to a folder on a local disk"));
}

TEST_CASE("removing a container leaves nothing of it, whatever it wrote", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome wrote = scene.outcome(
        "c",
        [] {
            return in_order({verdict(mkdir("/a", 0755)), verdict(mkdir("/a/b", 0755)), write_to("/a/b/f", "x"),
                             verdict(mkfifo("/a/pipe", 0600)), verdict(symlink("/", "/a/link")),
                             verdict(chmod("/a/b/f", 0)), verdict(chmod("/a/b", 0)), verdict(chmod("/a", 0)),
                             verdict(unlink("/gone"))});
        },
        with_root());
    CHECK(wrote.text == "ok ok ok ok ok ok ok ok ok");
    CHECK(scene.program("berth", {"rm", "c"}) == "|0");
    CHECK(scene.left() == "locks");
    CHECK_THAT(scene.program("berth", {"rm", "c"}),
               Catch::Contains("there is none of that name") && Catch::EndsWith("|125"));
    CHECK_THAT(scene.program("berth", {"exec", "c", "true"}),
               Catch::Contains("there is none of that name") && Catch::EndsWith("|125"));
    CHECK_THAT(scene.program("berth", {"run", "--name", "c:exec", scene.image, "inside"}),
               Catch::Contains("there is none of that name"));
    CHECK(scene.left() == "locks");
    CHECK_THAT(scene.program("berth", {"rm", "../x"}), Catch::Contains("container name") && Catch::EndsWith("|125"));
}

TEST_CASE("a container that runs is removed only by force", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer used = scene.use("c");
        pid_t task = start_waiting_task(used.joined.container);
        std::string text = scene.program("berth", {"rm", "c"});
        text += scene.program("berth", {"rm", "--force", "c"});
        int status = 0;
        ::waitpid(task, &status, 0);
        return text + cat(" ", WTERMSIG(status), " ", scene.left());
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "berth: removing container c: it runs; wait for its end, or use --force to end it\n|125|0 9 locks");
}
