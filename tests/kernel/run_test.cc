// `berth run` and `berth exec` as people use them: terminals, jobs, signals, exit codes, processes of the container's own. The image has a shell by a mount of the
// node's /usr.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <filesystem>

#include "runtime/base/sys.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

struct Shell : NamedScene {
    Shell()
        : NamedScene([](squash::LayerWriter& writer) {
              for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
              writer.add_directory("usr", {});
              add_file(writer, "bin/broken", "#!/no/such/interpreter\n", 0755);
              add_file(writer, "bin/plain", "text\n", 0644);
          }) {}

    /// The words of `berth run OPTIONS IMAGE bash -c SCRIPT`.
    std::vector<std::string> words(std::vector<std::string> options, const std::string& script) const {
        options.insert(options.begin(), {"run", "--mount", "/usr:/usr:ro"});
        options.insert(options.end(), {image, "/usr/bin/bash", "--norc", "-c", script});
        return command("berth", options);
    }
    std::string shell(const std::vector<std::string>& options, const std::string& script) const {
        std::vector<std::string> all = words(options, script);
        // program() puts the program itself in front again.
        size_t run = static_cast<size_t>(std::find(all.begin(), all.end(), "run") - all.begin());
        return program("berth", {all.begin() + static_cast<std::ptrdiff_t>(run), all.end()});
    }
};

[[noreturn]] void become(std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
}

int code_of(int status) { return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Reads until `text` has come, or the end.
void read_until(int fd, std::string& all, const std::string& text) {
    size_t from = all.size();
    char buffer[4096];
    while (all.find(text, from) == all.npos) {
        pollfd wait{fd, POLLIN, 0};
        if (::poll(&wait, 1, 10'000) != 1) throw Error(cat("waited in vain for '", text, "' after: ", printable(all, 10'000)));
        ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got <= 0) return;
        all.append(buffer, static_cast<size_t>(got));
    }
}

std::string modes_of(int terminal) {
    termios settings{};
    ::tcgetattr(terminal, &settings);
    return cat(settings.c_iflag, " ", settings.c_oflag, " ", settings.c_lflag);
}

/// A program on a terminal of 40 x 100, and a person at it.
class Person {
  public:
    explicit Person(std::vector<std::string> words) {
        winsize size{40, 100, 0, 0};
        int master = -1, slave = -1;
        if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) throw SysError("making a terminal");
        screen_ = Fd(master), keyboard_ = Fd(slave);
        before_ = modes_of(slave);
        // TERM: no escape sequences.
        words.insert(words.begin() + 2, {"TERM=dumb", "PS1=> "});
        child_ = ::fork();
        if (child_ != 0) return;
        ::close(master);
        if (::login_tty(slave) != 0) ::_exit(99);
        become(std::move(words));
    }
    ~Person() {
        if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    }
    Person(const Person&) = delete;
    Person& operator=(const Person&) = delete;

    void type(const std::string& keys) const { sys::write_all(screen_.get(), keys, "keys"); }
    void see(const std::string& text) { read_until(screen_.get(), seen, text); }
    /// What the program has left on the screen, which this test keeps open.
    void see_rest() {
        char buffer[4096];
        for (pollfd wait{screen_.get(), POLLIN, 0}; ::poll(&wait, 1, 100) == 1;)
            if (ssize_t got = ::read(screen_.get(), buffer, sizeof buffer); got > 0) seen.append(buffer, static_cast<size_t>(got));
    }
    void widen() const {
        winsize size{41, 101, 0, 0};
        ::ioctl(screen_.get(), TIOCSWINSZ, &size);
    }
    void send(int signal) const { ::kill(child_, signal); }
    int end() {
        int status = 0;
        ::waitpid(std::exchange(child_, -1), &status, 0);
        return code_of(status);
    }
    /// Whether the terminal's settings are what they were.
    std::string terminal() const { return modes_of(keyboard_.get()) == before_ ? "restored" : "changed"; }

    std::string seen;

  private:
    Fd screen_, keyboard_;
    std::string before_;
    pid_t child_ = -1;
};

std::vector<std::string> interactive(const Shell& scene, std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "--mount", "/usr:/usr:ro"});
    options.insert(options.end(), {scene.image, "/usr/bin/bash", "--norc", "-i"});
    return scene.command("berth", options);
}

}  // namespace

TEST_CASE("run --tty: a terminal of the container's own, with size, job control and the shell's exit code", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    bool named = GENERATE(false, true);
    Outcome seen = as_user([&] {
        Person person(interactive(scene, named ? std::vector<std::string>{"-t", "--name", "c"} : std::vector<std::string>{"-it"}));
        person.type("tty; stty size; ls /dev/pts | wc -l; echo through-tty > /dev/tty; echo re''ady\n");
        person.see("ready\r\n");
        person.widen();
        person.type("sleep 0.2; stty size; sleep 50\n");
        person.see("sleep 50\r\n");
        ::poll(nullptr, 0, 500);
        std::string during = person.terminal();
        person.type("\003");
        person.type("echo st''ill; sleep 60 &\n");
        person.see("still");
        person.type("kill %1; exit 3\n");
        int code = person.end();
        person.see_rest();
        return cat(code, " ", during, " ", person.terminal(), " ", person.seen);
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("3 changed restored ") && Catch::Contains("/dev/pts/") && Catch::Contains("40 100") && Catch::Contains("through-tty\r\n") && Catch::Contains("41 101"));
    CHECK_THAT(seen.text, !Catch::Contains("no job control"));
    // Its own and ptmx.
    CHECK_THAT(seen.text, Catch::Contains("/dev/pts/0\r\n40 100\r\n2\r\n"));
}

TEST_CASE("run without --tty: the caller's terminal itself, with job control", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    Outcome seen = as_user([&] {
        Person person(interactive(scene, {}));
        person.type("tty; stty size; echo re''ady\n");
        person.see("ready\r\n");
        person.type("sleep 50\n");
        person.see("sleep 50\r\n");
        ::poll(nullptr, 0, 300);
        person.type("\003");
        person.type("echo st''ill; exit 4\n");
        person.see("still");
        return cat(person.end(), " ", person.seen);
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("4 ") && Catch::Contains("\n/dev/console\r\n") && Catch::Contains("40 100") && !Catch::Contains("no job control"));
}

TEST_CASE("run --tty: the caller's terminal is restored in every end, and input that is no terminal is typed", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    Outcome seen = as_user([&] {
        std::string text;
        for (int signal : {SIGTERM, SIGHUP}) {
            Person person(scene.words({"-t"}, "echo ready; exec sleep 50"));
            person.see("ready");
            person.send(signal);
            text += in_order({cat(person.end()), person.terminal(), ""});
        }
        Person failed(scene.command("berth", {"run", "-t", scene.image, "no-such-command"}));
        text += in_order({cat(failed.end()), failed.terminal(), ""});
        failed.see_rest();
        return text + (failed.seen.find("command not found in the container") != std::string::npos ? "1" : "0");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "143 restored 129 restored 127 restored 1");
    std::string typed = as_user([&] {
                            std::vector<std::string> words = scene.command("berth", {"run", "-t", "--mount", "/usr:/usr:ro", scene.image, "/usr/bin/bash", "--norc"});
                            std::vector<std::string> all{"/bin/sh", "-c", "echo 'echo $((6*7)); exit 5' | \"$@\"", "sh"};
                            all.insert(all.end(), words.begin(), words.end());
                            return output_of(all);
                        }).text;
    CHECK_THAT(typed, Catch::Contains("42\r\n") && Catch::EndsWith("|5"));
}

namespace {

/// Kills a child in the end, also when a check before it throws: it holds the pipe of the test's output.
struct Ended {
    pid_t child;
    ~Ended() {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
};

}  // namespace

TEST_CASE("run passes signals on, and exits as a shell would", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    const std::string script = "for s in INT TERM HUP QUIT USR1 USR2 WINCH CONT TSTP; do trap \"echo got-$s\" $s; done; echo ready; while :; do sleep 0.05; done";
    Outcome seen = as_user([&] {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
        Fd reading(ends[0]), writing(ends[1]);
        pid_t child = ::fork();
        if (child == 0) {
            ::dup2(writing.get(), 1);
            ::setpgid(0, 0);
            // Whoever started the tests in the background made them ignore these.
            for (int number : {SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
            become(scene.words({}, script));
        }
        Ended end{child};
        writing.reset();
        std::string out;
        read_until(reading.get(), out, "ready");
        for (auto [number, name] : {std::pair{SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}, {SIGCONT, "CONT"}, {SIGTSTP, "TSTP"}}) {
            ::kill(child, number);
            read_until(reading.get(), out, cat("got-", name, "\n"));
        }
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "ready\ngot-INT\ngot-TERM\ngot-HUP\ngot-QUIT\ngot-USR1\ngot-USR2\ngot-WINCH\ngot-CONT\ngot-TSTP\n");
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
    Shell scene;
    Outcome seen = as_user([&] {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
        Fd reading(ends[0]), writing(ends[1]);
        pid_t child = ::fork();
        if (child == 0) {
            ::dup2(writing.get(), 1);
            ::setpgid(0, 0);
            become(scene.words({}, "echo ready; kill -TSTP $$; echo again; exit 6"));
        }
        writing.reset();
        int status = 0;
        ::waitpid(child, &status, WUNTRACED);
        std::string text = WIFSTOPPED(status) ? "stopped " : "not stopped ";
        ::kill(child, SIGCONT);
        ::waitpid(child, &status, 0);
        return text + sys::read_all(reading.get(), 1000, "the output") + cat(code_of(status));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "stopped ready\nagain\n6");
}

TEST_CASE("run --pid: processes of its own, whose orphans are reaped, and which end with the command", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    const std::string script =
        "echo $$ $PPID; (sleep 0.1 & exec 3>&-; true); sleep 0.5; set -- /proc/[0-9]*; echo $#; kill -0 1 && echo seen; kill -9 1; readlink /proc/1/ns/pid > /dev/null || echo closed; "
        "grep -c . /proc/self/mountinfo > /dev/null; (setsid sleep 100 > /dev/null 2>&1 &) ; exit 4";
    bool named = GENERATE(false, true);
    std::vector<std::string> options = named ? std::vector<std::string>{"--pid", "--name", "c"} : std::vector<std::string>{"--pid"};
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
        return scene.program("berth", {"exec", "c", "inside", "x"}) + scene.program("berth", {"run", "--name", "c:exec", "--pid", scene.image, "no-such"});
    });
    CHECK_THAT(joined.text, Catch::StartsWith("inside x uid=") && Catch::Contains("|0berth: running no-such: command not found") && Catch::EndsWith("|127"));
}

TEST_CASE("run --net --ipc --uts --cgroup: namespaces of its own", "[kernel][run]") {
    NEED_CONTAINERS();
    Shell scene;
    const std::string show = "for n in net ipc uts cgroup pid; do readlink /proc/self/ns/$n; done; cat /proc/self/cgroup | tail -n 1; (echo > /dev/tcp/127.0.0.1/9) 2>&1 | grep -c 'connect: Connection refused'";
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
    Shell scene;
    scene.folder.file("data", "of the node");
    CHECK(scene.shell({"--root"}, "id -u; id -g") == "0\n0\n|0");
    CHECK(scene.shell({}, "id -u") == cat(test_uid(), "\n|0"));
    CHECK(scene.shell({"--rw"}, "echo x > /new && cat /new") == "x\n|0");
    CHECK_THAT(scene.shell({"--ro"}, "echo x > /new"), Catch::Contains("Read-only file system") && Catch::EndsWith("|1"));
    CHECK(scene.shell({"-w", "/etc", "-e", "A=b c", "-e", "PATH=/bin"}, "pwd; echo \"$A $PATH\"") == "/etc\nb c /bin\n|0");
    CHECK_THAT(scene.shell({"-w", "/no/such"}, "pwd"), Catch::EndsWith("|127"));
    CHECK(scene.shell({"--mount", scene.folder / "data:/srv/data:ro", "--mount", "tmpfs:/scratch"}, "cat /srv/data; echo x > /scratch/x; echo x > /srv/data || echo no") != "");
    CHECK_THAT(scene.shell({"--mount", scene.folder / "data:/srv/data:ro"}, "cat /srv/data; echo x > /srv/data || echo no"), Catch::StartsWith("of the node") && Catch::EndsWith("no\n|0"));
    std::string verbose = scene.shell({"-v"}, "true");
    for (const char* phase : {"image", "namespaces", "sources", "overlay", "edits", "command", "end"}) CHECK_THAT(verbose, Catch::Contains(cat(" ", phase, " ")));
}
