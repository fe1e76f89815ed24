// The parts of the plugin that need no Slurm.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "spank/config.hh"
#include "spank/run_directory.hh"
#include "spank/user_folders.hh"
#include "spank/watch.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

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
    mode_t mode(const std::string& name) const { return info(name).st_mode & 07777; }
};

/// Without file systems of their own, which take root.
void enter(const Run& run, uid_t user) {
    enter_run_directory(run.fd.get(), {user, 7, "n1"}, getegid(), {.bytes = 0});
}

pid_t sleeper() {
    pid_t pid = fixtures::forked();
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

TEST_CASE("plugin: the mark of a job tells that its batch script runs in a container", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    JobOnNode job{user, 7, "n1"}, other{user, 8, "n1"};
    CHECK(!script_is_contained(run.fd.get(), job));
    enter(run, user);
    CHECK(!script_is_contained(run.fd.get(), job));
    job.script = true;
    enter_run_directory(run.fd.get(), job, getegid(), {.bytes = 0});
    job.script = false;
    CHECK(script_is_contained(run.fd.get(), job));
    CHECK(!script_is_contained(run.fd.get(), other));
    // A step of the job that comes later takes nothing back, and the job's end does.
    enter(run, user);
    CHECK(script_is_contained(run.fd.get(), job));
    leave_run_directory(run.fd.get(), job);
    CHECK(!script_is_contained(run.fd.get(), job));
}

TEST_CASE("plugin: words of plugstack.conf", "[spank]") {
    char helper[] = "helper=/opt/berth", typo[] = "helpr=/opt/berth", relative[] = "helper=berth", bare[] = "helper";
    char* words[] = {helper, typo, relative, bare};
    CHECK(parse_config(0, words).helper == "/usr/bin/berth");
    CHECK(parse_config(1, words).helper == "/opt/berth");
    CHECK_THROWS_WITH(parse_config(2, words), Contains("no setting helpr") && Contains("helper=PATH"));
    CHECK_THROWS_WITH(parse_config(1, words + 2), Contains("no absolute path"));
    CHECK_THROWS_AS(parse_config(1, words + 3), Error);
}

TEST_CASE("plugin: what plugstack.conf says of the users' folders", "[spank]") {
    auto parsed = [](std::string word) {
        char* words[] = {word.data()};
        return parse_config(1, words);
    };
    CHECK(parse_config(0, nullptr).run.bytes == 4 << 20);
    CHECK(parse_config(0, nullptr).user_folders == "/var/lib/berth");
    CHECK(parsed("run_size=512K").run.bytes == 512 << 10);
    CHECK(parsed("run_size=1G").run.bytes == 1 << 30);
    CHECK(parsed("run_size=0").run.bytes == 0);
    CHECK(parsed("run_inodes=100").run.inodes == 100);
    CHECK(parsed("user_folders=/local/berth").user_folders == "/local/berth");
    CHECK(parsed("user_folders=").user_folders == "");
    for (const char* word : {"run_size=", "run_size=K", "run_size=4T", "run_size=-1", "run_size=99999999999G",
                             "run_inodes=0", "run_inodes=15", "run_inodes=many", "user_folders=berth"})
        CHECK_THROWS_WITH(parsed(word), Contains(std::string("plugstack.conf: ") + word + ": no "));
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
    CHECK(config.without_effect.empty());
    CHECK_THROWS_WITH(parse_config(1, words + 3), Contains("container_scope=node") && Contains("global or job"));
    CHECK_THROWS_WITH(parse_config(1, words + 4), Contains("sbatch_support=perhaps"));
}

TEST_CASE("plugin: Pyxis' words of plugstack.conf that mean nothing here are accepted and kept apart", "[spank]") {
    std::string given[] = {"runtime_path=/run/pyxis", "importer=/opt/my\nimporter", "use_squashfuse=1",
                           "use_enroot_load=perhaps", "helper=/opt/berth"};
    std::vector<char*> words;
    for (std::string& word : given) words.push_back(word.data());
    Config config = parse_config(5, words.data());
    CHECK(config.without_effect ==
          "runtime_path=/run/pyxis importer=/opt/my\\x0aimporter use_squashfuse=1 use_enroot_load=perhaps");
    CHECK(config.settings.empty());
    CHECK(config.helper == "/opt/berth");
    for (std::string word : {"runtime_paths=/run", "runtime=/run", "squashfuse=1"}) {
        char* other[] = {word.data()};
        CHECK_THROWS_WITH(parse_config(1, other), Contains("no setting"));
    }
}

TEST_CASE("plugin: the run directory is made once, with its owner and mode", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    mode_t before = umask(077);
    enter(run, user);
    enter(run, user);
    umask(before);
    CHECK(run.mode("berth") == 0755);
    CHECK(run.info("berth").st_uid == geteuid());
    CHECK(run.mode("berth/jobs") == 0700);
    CHECK(run.mode("berth/" + std::to_string(user)) == 0755);
    auto mine = run.info("berth/" + std::to_string(user) + "/steps");
    CHECK((mine.st_mode & 07777) == 0700);
    CHECK(mine.st_uid == user);
}

TEST_CASE("hostile row 51: a run directory that another has made is refused and left alone", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    std::string name = "berth/" + std::to_string(user);
    SECTION("a symlink in place of the folder of all") {
        REQUIRE(symlink("/tmp", (run.path + "/berth").c_str()) == 0);
        CHECK_THROWS_AS(enter(run, user), Error);
        CHECK_FALSE(std::filesystem::exists("/tmp/" + std::to_string(user)));
    }
    SECTION("a symlink in place of the user's") {
        REQUIRE(mkdir((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(chmod((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(symlink("/", (run.path + "/" + name).c_str()) == 0);
        CHECK_THROWS_AS(enter(run, user), Error);
    }
    SECTION("a file") {
        REQUIRE(close(open((run.path + "/berth").c_str(), O_CREAT | O_WRONLY, 0644)) == 0);
        CHECK_THROWS_WITH(enter(run, user), Contains("must be a directory"));
    }
    SECTION("a mode that lets others in") {
        REQUIRE(mkdir((run.path + "/berth").c_str(), 0755) == 0);
        REQUIRE(chmod((run.path + "/berth").c_str(), 0777) == 0);
        CHECK_THROWS_WITH(enter(run, user), Contains("/run/berth belongs to user"));
        CHECK(run.mode("berth") == 0777);
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
        CHECK_THROWS_AS(enter(run, user), Error);
        CHECK(run.info(name).st_uid == 54321);
    }
}

TEST_CASE("plugin: a job's mark lasts until its end on that node, and the lock's file is root's alone", "[spank]") {
    Run run;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    std::string jobs = run.path + "/berth/jobs/", start = std::to_string(user);
    auto marks = [&] {
        std::set<std::string> out;
        for (const auto& entry : std::filesystem::directory_iterator(jobs)) out.insert(entry.path().filename());
        return out;
    };
    for (const JobOnNode& job : {JobOnNode{user, 7, "n1"}, JobOnNode{user, 7, "n2"}, JobOnNode{user, 8, "n1"}})
        enter_run_directory(run.fd.get(), job, getegid(), {.bytes = 0});
    CHECK(marks() == std::set<std::string>{start + ".7.n1", start + ".7.n2", start + ".8.n1"});
    leave_run_directory(run.fd.get(), {user, 7, "n1"});
    leave_run_directory(run.fd.get(), {user, 9, "n1"});
    CHECK(marks() == std::set<std::string>{start + ".7.n2", start + ".8.n1"});
    CHECK(run.mode("berth.lock") == 0600);
    REQUIRE(chmod((run.path + "/berth.lock").c_str(), 0644) == 0);
    CHECK_THROWS_WITH(enter(run, user), Contains("berth.lock is not root's alone"));
}

TEST_CASE("hostile row 51: the folders on disk are made for their user, and what another has made stays", "[spank]") {
    Run parent;
    uid_t user = geteuid() == 0 ? 12345 : geteuid();
    std::string name = std::to_string(user);
    REQUIRE(chmod(parent.path.c_str(), 0755) == 0);
    SECTION("all are missing") {
        mode_t before = umask(077);
        for (int i = 0; i < 2; ++i) make_user_folders(parent.path, user, getegid());
        umask(before);
        for (const char* purpose : {"", ".containers", ".counters"}) {
            CHECK(parent.mode(name + purpose) == 0700);
            CHECK(parent.info(name + purpose).st_uid == user);
        }
    }
    SECTION("a symlink and a file are in their place") {
        REQUIRE(symlink("/tmp", (parent.path + "/" + name).c_str()) == 0);
        REQUIRE(close(open((parent.path + "/" + name + ".containers").c_str(), O_CREAT | O_WRONLY, 0644)) == 0);
        make_user_folders(parent.path, user, getegid());
        CHECK(S_ISLNK(parent.info(name).st_mode));
        CHECK(S_ISREG(parent.info(name + ".containers").st_mode));
        CHECK(parent.mode(name + ".counters") == 0700);
    }
    SECTION("the user has opened a folder to others") {
        REQUIRE(mkdir((parent.path + "/" + name).c_str(), 0755) == 0);
        make_user_folders(parent.path, user, getegid());
        CHECK(parent.mode(name) == 0755);
    }
    SECTION("others can rename what is in the parent") {
        REQUIRE(chmod(parent.path.c_str(), 0777) == 0);
        make_user_folders(parent.path, user, getegid());
        CHECK(std::filesystem::is_empty(parent.path));
    }
    SECTION("there is no parent") { make_user_folders(parent.path + "/none", user, getegid()); }
}

TEST_CASE("hostile row 65: the tasks end with their file server", "[spank]") {
    reports = 0;
    pid_t helper = sleeper(), task = sleeper();
    Fd process = sys::pidfd_open(helper);
    Watch watch;
    watch.add_task(task, process.get(), count_report);
    SECTION("it dies alone") {
        fixtures::kill_one(helper, SIGKILL);
        CHECK(killed(task));
        CHECK(reports == 1);
    }
    SECTION("the tasks die with it: nothing is said") {
        fixtures::kill_one(helper, SIGKILL);
        fixtures::kill_one(task, SIGKILL);
        CHECK(killed(task));
        watch.stop();
        CHECK(reports == 0);
    }
    SECTION("an ordinary end") {
        watch.stop();
        fixtures::kill_one(helper, SIGKILL);
        fixtures::kill_one(task, SIGKILL);
        CHECK(killed(task));
        CHECK(reports == 0);
    }
    watch.stop();
    waitpid(helper, nullptr, 0);
}
