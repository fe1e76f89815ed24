// The parts of the plugin that need no Slurm.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "spank/config.hh"
#include "spank/run_directory.hh"
#include "spank/watch.hh"

using namespace berth;
using namespace berth::spank;
using Catch::Contains;

namespace {

struct Run {
    std::string path;
    Fd fd;
    Run() {
        char name[] = "/tmp/berth-run-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path = name;
        fd = Fd(open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    ~Run() { std::filesystem::remove_all(path); }
    struct stat info(const std::string& name) const {
        struct stat out {};
        REQUIRE(lstat((path + "/" + name).c_str(), &out) == 0);
        return out;
    }
};

pid_t sleeper() {
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) pause();
    }
    return pid;
}

bool killed(pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

std::atomic<int> reports;
void count_report() {
    ++reports;
}

}  // namespace

TEST_CASE("plugin: words of plugstack.conf", "[spank]") {
    char helper[] = "helper=/opt/berth", typo[] = "helpr=/opt/berth", relative[] = "helper=berth", bare[] = "helper";
    char* words[] = {helper, typo, relative, bare};
    CHECK(parse_config(0, words).helper == "/usr/bin/berth");
    CHECK(parse_config(1, words).helper == "/opt/berth");
    CHECK_THROWS_WITH(parse_config(2, words), Contains("no setting helpr") && Contains("helper=PATH"));
    CHECK_THROWS_WITH(parse_config(1, words + 2), Contains("no absolute path"));
    CHECK_THROWS_AS(parse_config(1, words + 3), Error);
}

TEST_CASE("plugin: Pyxis' words of plugstack.conf", "[spank]") {
    char scope[] = "container_scope=job", entrypoint[] = "execute_entrypoint=yes", batch[] = "sbatch_support=0",
         bad[] = "container_scope=node", perhaps[] = "sbatch_support=perhaps";
    char* words[] = {scope, entrypoint, batch, bad, perhaps};
    Config config = parse_config(3, words);
    CHECK(config.settings ==
          std::vector<std::string>{"BERTH_DEFAULTS_CONTAINER_SCOPE=job", "BERTH_DEFAULTS_ENTRYPOINT=true"});
    CHECK_FALSE(config.sbatch_support);
    CHECK(parse_config(0, words).sbatch_support);
    CHECK_THROWS_WITH(parse_config(1, words + 3), Contains("container_scope=node") && Contains("global or job"));
    CHECK_THROWS_WITH(parse_config(1, words + 4), Contains("sbatch_support=perhaps"));
}

TEST_CASE("plugin: the run directory is made once, with its owner and mode", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    mode_t before = umask(077);
    make_run_directory(run.fd.get(), user, getegid());
    make_run_directory(run.fd.get(), user, getegid());
    umask(before);
    CHECK((run.info("berth").st_mode & 07777) == 0755);
    CHECK(run.info("berth").st_uid == geteuid());
    auto mine = run.info("berth/" + std::to_string(user));
    CHECK((mine.st_mode & 07777) == 0700);
    CHECK(mine.st_uid == user);
}

TEST_CASE("hostile row 51: a run directory that another has made is refused and left alone", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    std::string name = "berth/" + std::to_string(user);
    SECTION("a symlink in place of the folder of all") {
        REQUIRE(symlink("/tmp", (run.path + "/berth").c_str()) == 0);
        CHECK_THROWS_AS(make_run_directory(run.fd.get(), user, getegid()), Error);
        CHECK_FALSE(std::filesystem::exists("/tmp/" + std::to_string(user)));
    }
    SECTION("a symlink in place of the user's") {
        REQUIRE(mkdir((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(chmod((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(symlink("/", (run.path + "/" + name).c_str()) == 0);
        CHECK_THROWS_AS(make_run_directory(run.fd.get(), user, getegid()), Error);
    }
    SECTION("a file") {
        REQUIRE(close(open((run.path + "/berth").c_str(), O_CREAT | O_WRONLY, 0644)) == 0);
        CHECK_THROWS_WITH(make_run_directory(run.fd.get(), user, getegid()), Contains("must be a directory"));
    }
    SECTION("a mode that lets others in") {
        REQUIRE(mkdir((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(chmod((run.path + "/berth").c_str(), 0777) == 0);
        CHECK_THROWS_WITH(make_run_directory(run.fd.get(), user, getegid()), Contains("/run/berth belongs to user"));
        CHECK((run.info("berth").st_mode & 07777) == 0777);
    }
    SECTION("another owner") {
        if (geteuid() != 0) {
            if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL("needs root");
            WARN("needs root: not tested");
            return;
        }
        REQUIRE(mkdir((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(chmod((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(mkdir((run.path + "/" + name).c_str(), 0700) == 0);
        REQUIRE(chown((run.path + "/" + name).c_str(), 54321, 54321) == 0);
        CHECK_THROWS_AS(make_run_directory(run.fd.get(), user, getegid()), Error);
        CHECK(run.info(name).st_uid == 54321);
    }
}

TEST_CASE("hostile row 65: the tasks end with their file server", "[spank]") {
    reports = 0;
    pid_t helper = sleeper(), task = sleeper();
    Fd process = sys::pidfd_open(helper);
    Watch watch;
    watch.add_task(task, process.get(), count_report);
    SECTION("it dies alone") {
        kill(helper, SIGKILL);
        CHECK(killed(task));
        CHECK(reports == 1);
    }
    SECTION("the tasks die with it: nothing is said") {
        kill(helper, SIGKILL);
        kill(task, SIGKILL);
        CHECK(killed(task));
        watch.stop();
        CHECK(reports == 0);
    }
    SECTION("an ordinary end") {
        watch.stop();
        kill(helper, SIGKILL);
        kill(task, SIGKILL);
        CHECK(killed(task));
        CHECK(reports == 0);
    }
    watch.stop();
    waitpid(helper, nullptr, 0);
}
