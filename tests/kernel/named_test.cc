// Containers that stay: their files from one run to the next, joining, concurrent creation, kills, removal.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/old_mounts.hh"
#include "runtime/base/sys.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace std::chrono_literals;

namespace {

std::string exists(const std::string& path) { return verdict(access(path.c_str(), F_OK)); }

/// The helpers of the test user's containers in `scene`, by their locks: "free" or "held".
std::string running(const NamedScene& scene, const std::string& name, int timeout_ms = 0) {
    return as_user([&] { return std::string(scene.containers().running_lock(name, timeout_ms) ? "free" : "held"); })
        .text;
}

/// The names of the phases in what `berth run -v` has printed.
std::string phases_in(const std::string& output) {
    std::string out;
    for (const std::string& line : split(output, '\n'))
        if (line.starts_with("berth: ") && line.ends_with(" us"))
            out += cat(out.empty() ? "" : " ", line.substr(7, line.find(' ', 7) - 7));
    return out;
}

}  // namespace

TEST_CASE("what a named container wrote is there in the next run", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome first = scene.outcome("c", [] {
        return in_order({write_to("/new", "one"), write_to("/etc/hello", "changed"), verdict(unlink("/gone")),
                         verdict(unlink("/folder/below")), verdict(rmdir("/folder")), verdict(mkdir("/folder", 0700)),
                         verdict(mkdir("/hidden", 0)), verdict(chmod("/new", 0)), verdict(rename("/bin", "/bin2")),
                         slurp("/etc/passwd").find("2001") == 0 ? "" : "run"});
    });
    CHECK(first.error == "");
    // A directory of the image is not renamed in place: programs copy it, as across file systems.
    CHECK(first.text == "ok ok ok ok ok ok ok ok Invalid cross-device link run");
    CHECK(running(scene, "c", 5000) == "free");
    auto look = [] {
        return in_order({exists("/new"), slurp("/etc/hello"), exists("/gone"), exists("/folder"),
                         exists("/folder/below"), exists("/bin/inside")});
    };
    Outcome second = scene.outcome("c", look);
    CHECK(second.error == "");
    CHECK(second.text == "ok changed No such file or directory ok No such file or directory ok");
    // As root inside as well: the files are the caller's either way.
    CHECK(scene.outcome("c", look, with_root()).text == second.text);
    CHECK(scene.outcome("other", [] { return slurp("/etc/hello") + exists("/gone"); }).text == "hello\nok");
    CHECK(scene.outcome("c:no_exec", [] { return slurp("/etc/hello"); }).text == "changed");
    CHECK_THAT(scene.outcome("c:create", [] { return std::string(); }).error, Catch::Contains("it exists already"));
    CHECK_THAT(scene.outcome("c:exec", [] { return std::string(); }).error, Catch::Contains("it does not run"));
}

TEST_CASE("a running container is joined, and ends with the last who is in it", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer first = scene.use("c");
        run_task(first.joined.container, [] { return write_to("/dev/shm/../../run/in-memory", "shared"); });
        UsedContainer second = scene.use("c:exec");
        std::string text = cat(first.action == plan::NameAction::create, second.action == plan::NameAction::join, " ");
        leave(std::move(first.connection));
        // What only the first run has in memory is still there.
        text += run_task(second.joined.container, [] { return slurp("/run/in-memory"); });
        text += cat(" ", bool(scene.containers().running_lock("c", 0)));
        // Without the newer calls for mounts it is joined, and then it must be as it is.
        text += cat(" ", sys::old::needed() ? scene.use("c:no_exec").action == plan::NameAction::join
                                            : scene.use("c:no_exec", with_root()).action == plan::NameAction::beside);
        try {
            scene.use("c", with_root());
        } catch (const Error& error) {
            text += cat(" ", error.what());
        }
        leave(std::move(second.connection));
        return text + cat(" ", bool(scene.containers().running_lock("c", 1000)));
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("11 shared 0 1 ") &&
                              Catch::Contains("joining container c: it runs already and is not started with --root") &&
                              Catch::EndsWith(" 1"));
    CHECK(scene.outcome("c", [] { return exists("/run/in-memory"); }).text == "No such file or directory");
}

TEST_CASE("beside a running container another one has its files, and mounts and ids of its own", "[kernel][named]") {
    NEED_CONTAINERS();
    if (sys::old::needed()) return;
    NamedScene scene;
    Outcome seen = as_user([&] {
        plan::Request read_only;
        read_only.writable = false;
        UsedContainer first = scene.use("c", read_only);
        run_task(first.joined.container, [] { return write_to("/run/in-memory", "first"); });
        plan::Request writable = with_root();
        writable.writable = true;
        UsedContainer second = scene.use("c:no_exec", writable);
        std::string text = run_task(second.joined.container, [] {
            return in_order({cat(getuid()), exists("/run/in-memory"), write_to("/new", "second"), slurp("/etc/hello")});
        });
        text += run_task(first.joined.container, [] {
            return in_order({slurp("/new"), write_to("/new", "first"), slurp("/run/in-memory")});
        });
        leave(std::move(first.connection));
        text += cat(" ", bool(scene.containers().running_lock("c", 0)),
                    run_task(second.joined.container, [] { return slurp("/etc/hello"); }));
        leave(std::move(second.connection));
        return text + cat(bool(scene.containers().running_lock("c", 1000)));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "0 No such file or directory ok hello\nsecond Read-only file system first 0hello\n1");
}

TEST_CASE("of twenty processes that ask at once one creates the container", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    int barrier[2];
    REQUIRE(::pipe2(barrier, O_CLOEXEC) == 0);
    Fd reading(barrier[0]), writing(barrier[1]);
    std::vector<pid_t> children;
    std::vector<int> results;
    for (int i = 0; i < 20; ++i) {
        pid_t child = fixtures::forked();
        if (child == 0) {
            writing.reset();
            try {
                as_user_here();
                UsedContainer used = scene.use("c");
                std::string seen = run_task(used.joined.container, [] { return slurp("/etc/hello"); });
                char byte;
                // Nobody leaves before all are in.
                if (::write(STDERR_FILENO, "", 0) != 0 || ::read(reading.get(), &byte, 1) != 0) ::_exit(9);
                leave(std::move(used.connection));
                ::_exit(seen != "hello\n"                         ? 8
                        : used.action == plan::NameAction::create ? 1
                        : used.action == plan::NameAction::join   ? 2
                                                                  : 3);
            } catch (const std::exception& error) {
                fprintf(stderr, "%s\n", error.what());
                ::_exit(7);
            }
        }
        children.push_back(child);
    }
    ::poll(nullptr, 0, 3000);
    writing.reset();
    for (pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    CHECK(std::count(results.begin(), results.end(), 1) == 1);
    CHECK(std::count(results.begin(), results.end(), 2) == 19);
    CHECK(running(scene, "c", 5000) == "free");
}

TEST_CASE("many short runs of one name never meet an error", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
        pid_t child = fixtures::forked();
        if (child == 0) {
            try {
                as_user_here();
                for (int round = 0; round < 10; ++round)
                    if (scene.run("c", [] { return slurp("/etc/hello"); }) != "hello\n") ::_exit(8);
                ::_exit(0);
            } catch (const std::exception& error) {
                fprintf(stderr, "%s\n", error.what());
                ::_exit(7);
            }
        }
        children.push_back(child);
    }
    for (pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
    }
}

TEST_CASE("one of another release is told that it cannot join, and can list and end the container",
          "[kernel][named][release]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer used = scene.use("c");
        auto ask = [&](Message message) {
            message.version = 9;
            Fd connection = scene.containers().connect("c");
            send_message(connection.get(), message);
            return receive_message(connection.get(), 10'000);
        };
        auto refused = ask(plan::encode(plan::TaskRequest{0, {}})), told = ask(plan::status_message());
        if (!refused || !told) throw Error("no answer");
        std::string text = cat(plan::decode_failure(refused->message).line, " ",
                               plan::decode_info(told->message).started > 0, " ");
        // Who is in it goes on undisturbed.
        text += run_task(used.joined.container, [] { return slurp("/etc/hello"); });
        ask(plan::stop_message());
        // The connection of who was in it is closed when the container has ended.
        return text + (receive_message(used.connection.get(), 10'000) ? "runs" : "ended");
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "joining the container: its helper is of another release of berth than you (its messages have version 2, "
          "yours 9); use that release, or wait for the container's end, or end it (berth rm --force) 1 hello\nended");
}

TEST_CASE("a container of a newer release is neither started nor changed, and can be listed and removed",
          "[kernel][named][release]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string state = scene.data + "/global_c/state", upper = scene.data + "/global_c/upper/new";
    REQUIRE(scene.outcome("c", [] { return write_to("/new", "kept"); }).text == "ok");
    std::string before = slurp(state);
    bool whole = GENERATE(true, false);
    write_to(state, whole ? "berth-container 2\nwhatever" : before + "landlock 1\nx\n");
    const std::string why = cat("reading the state of container c: ",
                                whole ? "it has form 2, this berth reads 1; "
                                      : "this berth does not know the record 'landlock'; "),
                      newer = "a newer release of berth has written it: use that one, which can also save the "
                              "container (berth save)\n";
    CHECK(scene.program("berth", {"exec", "c", "inside"}) == "berth: " + why + newer + "|125");
    CHECK(scene.program("berth", {"run", "--name", "c", scene.image, "inside"}) == "berth: " + why + newer + "|125");
    CHECK_THAT(scene.program("berth", {"ps"}), Catch::Contains(why + newer) && Catch::Contains("\nc "));
    CHECK(slurp(upper) == "kept");
    // Put back, it is what it was.
    write_to(state, before);
    CHECK(scene.outcome("c", [] { return slurp("/new"); }).text == "kept");
    write_to(state, "berth-container 2\nwhatever");
    CHECK(scene.program("berth", {"rm", "c"}) == "|0");
    CHECK(exists(state) == "No such file or directory");
}

TEST_CASE("berth run, exec and ps with a name", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string ids = cat(" uid=", test_uid(), " gid=", test_gid(), " euid=", test_uid(), "\n");
    CHECK(scene.program("berth", {"run", "--name", "c", scene.image, "inside", "fail"}) ==
          cat("inside fail", ids, "|7"));
    // By a terminal, which ends lines in its way.
    CHECK(scene.program("berth", {"exec", "-it", "c", "inside", "again"}) ==
          cat("inside again", ids.substr(0, ids.size() - 1), "\r\n|0"));
    CHECK_THAT(scene.program("berth", {"exec", "c", "no-such"}), Catch::EndsWith("|127"));
    CHECK_THAT(scene.program("berth", {"exec", "none", "true"}),
               Catch::Contains("there is none of that name") && Catch::EndsWith("|125"));
    CHECK_THAT(scene.program("berth", {"run", "--name", "c:exec", scene.image, "inside"}),
               Catch::Contains("does not run") && Catch::EndsWith("|125"));
    CHECK_THAT(scene.program("berth", {"ps"}),
               Catch::Contains("NAME") && Catch::Contains("\nc ") && Catch::Contains(scene.image));
    Outcome listed = as_user([&] {
        UsedContainer used = scene.use("c");
        pid_t task = start_waiting_task(used.joined.container);
        ::poll(nullptr, 0, 200);
        std::string text = scene.program("berth", {"ps", "--json"});
        fixtures::kill_one(task, SIGKILL);
        return cat(text.find(cat("\"pids\":[", task, "]")) != text.npos, " ", text);
    });
    CHECK_THAT(listed.text,
               Catch::StartsWith("1 {\"containers\":[\n  {\"name\":\"c\",") && Catch::Contains("\"running\":true"));
}

TEST_CASE("berth run -v tells the phases of a named container's start, or of joining it", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    auto told = [&](const std::string& name) {
        return phases_in(scene.program("berth", {"run", "-v", "--name", name, scene.image, "inside"}));
    };
    const std::string started = "image plan helper namespaces sources upper server overlay edits enter command end",
                      joined = "join command end";
    CHECK(told("c") == started);
    CHECK(told("c") == started);
    Outcome seen = as_user([&] {
        UsedContainer first = scene.use("c"), second = scene.use("c");
        return cat(first.joined.container.phases.size(), " ", second.joined.container.phases.size(), " ", told("c"),
                   ", ", told("c:no_exec"));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == cat("7 0 ", joined, ", ", sys::old::needed() ? joined : started));
}

TEST_CASE("a container may have ipc, network and host name of its own, and those who join have them too",
          "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    auto own = [](const std::string& name) { return std::filesystem::read_symlink("/proc/self/ns/" + name).string(); };
    plan::Request request;
    request.unshare = {true, true, true};
    Outcome seen = as_user([&] {
        std::string text;
        UsedContainer first = scene.use("c", request), second = scene.use("c", request);
        for (const char* name : {"ipc", "net", "uts"}) {
            std::string one = run_task(first.joined.container, [&] { return own(name); }),
                        two = run_task(second.joined.container, [&] { return own(name); });
            text += cat(name, " ", one == two, one != own(name), " ");
        }
        text += run_task(first.joined.container, [] {
            std::string flags = slurp("/proc/net/dev");
            return cat(flags.find("lo:") != flags.npos, split(flags, '\n').size(), " ", write_to("/dev/shm/mine", "x"),
                       " ", exists("/dev/mqueue"));
        });
        leave(std::move(first.connection));
        leave(std::move(second.connection));
        UsedContainer plain = scene.use("c");
        try {
            plan::Request net;
            net.unshare.net = true;
            scene.use("c", net);
        } catch (const Error& error) {
            text += cat(" ", error.what());
        }
        return text;
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("ipc 11 net 11 uts 11 14 ok No such file or directory joining container c: "
                                            "it runs already and is not in a separate network namespace"));
    std::string port = scene.program("berth", {"run", "--net", "--ipc", "--uts", scene.image, "inside"});
    CHECK_THAT(port, Catch::EndsWith("|0"));
}

TEST_CASE("berth ps tells what the file server of a named container that runs has in memory", "[kernel][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] {
        UsedContainer used = scene.use("mine");
        std::string running = output_of(scene.command("berth", {"ps", "--json"}));
        leave(std::move(used.connection));
        return running + output_of(scene.command("berth", {"ps", "--json"}));
    });
    CHECK(seen.error == "");
    // Of some megabytes, and of none when it does not run.
    CHECK_THAT(seen.text, Catch::Matches("[^]*\"running\":true[^]*\"memory\":[0-9]{7,8}\\}[^]*"
                                         "\"running\":false[^]*\"memory\":null\\}[^]*"));
}
