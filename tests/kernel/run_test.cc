// `berth run` as a user runs it, without a terminal: signals, namespaces, and what its options ask for.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("run passes signals on, and exits as a shell would", "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    const std::string script =
        "for s in INT TERM HUP QUIT USR1 USR2 WINCH CONT TSTP; do trap \"echo got-$s\" $s; done; echo ready; while :; "
        "do sleep 0.05; done";
    Outcome seen = as_user([&] {
        Beside run(scene.words({}, script), [] { ::setpgid(0, 0); });
        std::string out;
        read_until(run.output(), out, "ready");
        for (auto [number, name] : {std::pair{SIGINT, "INT"},
                                    {SIGTERM, "TERM"},
                                    {SIGHUP, "HUP"},
                                    {SIGQUIT, "QUIT"},
                                    {SIGUSR1, "USR1"},
                                    {SIGUSR2, "USR2"},
                                    {SIGWINCH, "WINCH"},
                                    {SIGCONT, "CONT"},
                                    {SIGTSTP, "TSTP"}}) {
            run.send(number);
            read_until(run.output(), out, cat("got-", name, "\n"));
        }
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "ready\ngot-INT\ngot-TERM\ngot-HUP\ngot-QUIT\ngot-USR1\ngot-USR2\ngot-WINCH\ngot-CONT\ngot-TSTP\n");
    CHECK(scene.shell({}, "kill -TERM $$") == "|143");
    CHECK(scene.shell({"--pid"}, "kill -SEGV $BASHPID; sleep 9") == "|139");
    CHECK(scene.shell({}, "exit 42") == "|42");
    CHECK_THAT(scene.program("berth", {"run", scene.image, "/bin/plain"}), Catch::EndsWith("|126"));
    CHECK_THAT(scene.program("berth", {"run", scene.image, "/bin/broken"}), Catch::EndsWith("|127"));
    CHECK_THAT(scene.program("berth", {"run", scene.image, "no-such"}), Catch::EndsWith("|127"));
    CHECK_THAT(scene.program("berth", {"run", scene.folder / "no-such-image", "true"}), Catch::EndsWith("|125"));
    CHECK_THAT(scene.program("berth", {"run", "--no-such-option"}), Catch::EndsWith("|125"));
}

TEST_CASE("a command that is stopped as a job stops its berth run, and goes on with it", "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    Outcome seen = as_user([&] {
        Beside run(scene.words({}, "echo ready; kill -TSTP $$; echo again; exit 6"), [] { ::setpgid(0, 0); });
        int status = run.wait(WUNTRACED);
        std::string text = WIFSTOPPED(status) ? "stopped " : "not stopped ";
        run.send(SIGCONT);
        status = run.wait();
        return text + sys::read_all(run.output(), 1000, "the output") + cat(code_of(status));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "stopped ready\nagain\n6");
}

TEST_CASE("run --pid: processes of its own, whose orphans are reaped, and which end with the command",
          "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    const std::string script =
        "echo $$ $PPID; (sleep 0.1 & exec 3>&-; true); sleep 0.5; set -- /proc/[0-9]*; echo $#; kill -0 1 && echo "
        "seen; kill -9 1; readlink /proc/1/ns/pid > "
        "/dev/null || echo closed; "
        "grep -c . /proc/self/mountinfo > /dev/null; (setsid sleep 100 > /dev/null 2>&1 &) ; exit 4";
    bool named = GENERATE(false, true);
    std::vector<std::string> options =
        named ? std::vector<std::string>{"--pid", "--name", "c"} : std::vector<std::string>{"--pid"};
    auto before = std::chrono::steady_clock::now();
    // The first process and the command.
    CHECK(scene.shell(options, script) == cat("2 0\n", "2\nseen\nclosed\n|4"));
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));
    if (!named) return;
    // It can be joined, and is the same for all.
    Outcome joined = as_user([&] {
        plan::Request request;
        request.unshare.pid = true;
        UsedContainer used = scene.use("c", request);
        return scene.program("berth", {"exec", "c", "inside", "x"}) +
               scene.program("berth", {"run", "--name", "c:exec", "--pid", scene.image, "no-such"});
    });
    CHECK_THAT(joined.text, Catch::StartsWith("inside x uid=") &&
                                Catch::Contains("|0berth: running no-such: command not found") &&
                                Catch::EndsWith("|127"));
}

TEST_CASE("run --net --ipc --uts --cgroup: namespaces of its own", "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    const std::string show =
        "for n in net ipc uts cgroup pid; do readlink /proc/self/ns/$n; done; cat /proc/self/cgroup | tail -n 1; (echo "
        "> /dev/tcp/127.0.0.1/9) 2>&1 | grep -c "
        "'connect: Connection refused'";
    std::string own = scene.shell({"--net", "--ipc", "--uts", "--cgroup", "--pid"}, show), node = scene.shell({}, show);
    std::vector<std::string> mine = split(own, '\n'), its = split(node, '\n');
    REQUIRE(mine.size() >= 7);
    REQUIRE(its.size() >= 7);
    for (size_t i = 0; i < 5; ++i) CHECK(mine[i] != its[i]);
    CHECK_THAT(mine[5], Catch::EndsWith(":/"));
    // lo is up: nobody listens, which is an answer.
    CHECK(mine[6] == "1");
}

TEST_CASE("run: identity, writing, environment, directory, entrypoint and mounts as asked for", "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    scene.folder.file("data", "of the node");
    CHECK(scene.shell({"--root"}, "id -u; id -g") == "0\n0\n|0");
    CHECK(scene.shell({}, "id -u") == cat(test_uid(), "\n|0"));
    CHECK(scene.shell({"--rw"}, "echo x > /new && cat /new") == "x\n|0");
    CHECK_THAT(scene.shell({"--ro"}, "echo x > /new"),
               Catch::Contains("Read-only file system") && Catch::EndsWith("|1"));
    CHECK(scene.shell({"-w", "/etc", "-e", "A=b c", "-e", "PATH=/bin"}, "pwd; echo \"$A $PATH\"") ==
          "/etc\nb c /bin\n|0");
    CHECK_THAT(scene.shell({"-w", "/no/such"}, "pwd"), Catch::EndsWith("|125"));
    std::vector<std::string> mounts = {"--mount", scene.folder / "data:/srv/data:ro", "--mount", "tmpfs:/scratch"};
    CHECK_THAT(scene.shell(mounts, "cat /srv/data; echo x > /scratch/x && echo made; echo x > /srv/data || echo no"),
               Catch::StartsWith("of the nodemade\n") && Catch::EndsWith("no\n|0"));
    std::string verbose = scene.shell({"-v"}, "true");
    for (const char* phase : {"image", "namespaces", "sources", "overlay", "edits", "command", "end"})
        CHECK_THAT(verbose, Catch::Contains(cat(" ", phase, " ")));
}
