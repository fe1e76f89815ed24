// `berth run` and `berth exec` as people use them: terminals, jobs, signals, exit codes, processes of the container's
// own. The image has a shell by a mount of the node's /usr.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "runtime/base/sys.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

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
        child_ = fixtures::forked();
        if (child_ != 0) return;
        ::close(master);
        if (::login_tty(slave) != 0) ::_exit(99);
        become(std::move(words));
    }
    ~Person() {
        if (child_ > 0) fixtures::kill_one(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    }
    Person(const Person&) = delete;
    Person& operator=(const Person&) = delete;

    void type(const std::string& keys) const { sys::write_all(screen_.get(), keys, "keys"); }
    void see(const std::string& text) { read_until(screen_.get(), seen, text); }
    /// What the program has left on the screen, which this test keeps open.
    void see_rest() {
        char buffer[4096];
        for (pollfd wait{screen_.get(), POLLIN, 0}; ::poll(&wait, 1, 100) == 1;)
            if (ssize_t got = ::read(screen_.get(), buffer, sizeof buffer); got > 0)
                seen.append(buffer, static_cast<size_t>(got));
    }
    void widen() const {
        winsize size{41, 101, 0, 0};
        ::ioctl(screen_.get(), TIOCSWINSZ, &size);
    }
    void send(int signal) const { fixtures::kill_one(child_, signal); }
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

std::vector<std::string> interactive(const ShellScene& scene, std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "--mount", "/usr:/usr:ro"});
    options.insert(options.end(), {scene.image, "/usr/bin/bash", "--norc", "-i"});
    return scene.command("berth", options);
}

}  // namespace

TEST_CASE("run --tty: a terminal of the container's own, with size, job control and the shell's exit code",
          "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
    bool named = GENERATE(false, true);
    Outcome seen = as_user([&] {
        Person person(interactive(
            scene, named ? std::vector<std::string>{"-t", "--name", "c"} : std::vector<std::string>{"-it"}));
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
    CHECK_THAT(seen.text, Catch::StartsWith("3 changed restored ") && Catch::Contains("/dev/pts/") &&
                              Catch::Contains("40 100") && Catch::Contains("through-tty\r\n") &&
                              Catch::Contains("41 101"));
    CHECK_THAT(seen.text, !Catch::Contains("no job control"));
    // Its own and ptmx.
    CHECK_THAT(seen.text, Catch::Contains("/dev/pts/0\r\n40 100\r\n2\r\n"));
}

TEST_CASE("run without --tty: the caller's terminal itself, with job control", "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
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
    CHECK_THAT(seen.text, Catch::StartsWith("4 ") && Catch::Contains("\n/dev/console\r\n") &&
                              Catch::Contains("40 100") && !Catch::Contains("no job control"));
}

TEST_CASE("run --tty: the caller's terminal is restored in every end, and input that is no terminal is typed",
          "[kernel][run]") {
    NEED_CONTAINERS();
    ShellScene scene;
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
    std::string typed =
        as_user([&] {
            std::vector<std::string> words = scene.command(
                "berth", {"run", "-t", "--mount", "/usr:/usr:ro", scene.image, "/usr/bin/bash", "--norc"});
            std::vector<std::string> all{"/bin/sh", "-c", "echo 'echo $((6*7)); exit 5' | \"$@\"", "sh"};
            all.insert(all.end(), words.begin(), words.end());
            return output_of(all);
        }).text;
    CHECK_THAT(typed, Catch::Contains("42\r\n") && Catch::EndsWith("|5"));
}
