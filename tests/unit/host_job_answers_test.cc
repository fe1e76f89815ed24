#include "runtime/host/job_answers.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

namespace {

Digest digest(char digit) { return Digest("sha256:" + std::string(64, digit)); }

struct Folder {
    fixtures::TempFolder folder;
    std::string path = folder / "cache/berth-jobs";
    JobAnswers of(const std::string& job) const { return JobAnswers(path + "/" + job); }
    std::string content(const std::string& job) const { return sys::read_file(path + "/" + job); }
};

}  // namespace

TEST_CASE("the first answer for an image counts in its job, and in no other", "[host][answers]") {
    Folder folder;
    JobAnswers job = folder.of("c.1");
    CHECK_FALSE(job.find("r/a:1"));
    CHECK(job.keep("r/a:1", digest('1')) == digest('1'));
    CHECK(job.keep("r/a:1", digest('2')) == digest('1'));
    CHECK(job.keep("r/a:10", digest('3')) == digest('3'));
    CHECK(job.find("r/a:1") == digest('1'));
    CHECK(job.find("r/a:10") == digest('3'));
    CHECK_FALSE(job.find("r/a"));
    CHECK_FALSE(folder.of("c.11").find("r/a:1"));
    struct stat st {};
    REQUIRE(::stat((folder.path + "/c.1").c_str(), &st) == 0);
    CHECK((st.st_mode & 07777) == 0600);
}

TEST_CASE("half a line counts for nothing, and the next answer stands in a line of its own", "[host][answers]") {
    CHECK_FALSE(answer_in("sha256:" + std::string(64, '1') + " r/a:1", "r/a:1"));
    Folder folder;
    JobAnswers job = folder.of("c.1");
    job.keep("r/a:1", digest('1'));
    std::string half = folder.content("c.1");
    half.resize(half.size() - 1);
    sys::write_all(sys::open_file(folder.path + "/c.1", O_WRONLY | O_TRUNC).get(), half, "half");
    CHECK_FALSE(job.find("r/a:1"));
    CHECK(job.keep("r/b:1", digest('2')) == digest('2'));
    CHECK(job.find("r/b:1") == digest('2'));
    CHECK_FALSE(answer_in("sha256:12 r/a:1\nr/a:1\n r/a:1\n", "r/a:1"));
}

TEST_CASE("a file that cannot be read or written, or is none, stops nothing", "[host][answers]") {
    Folder folder;
    CHECK(JobAnswers("/proc/none/x").keep("r/a:1", digest('1')) == digest('1'));
    folder.of("c.0").keep("r/a:1", digest('1'));
    std::filesystem::create_symlink("c.0", folder.path + "/c.1");
    std::filesystem::create_directory(folder.path + "/c.2");
    REQUIRE(::mkfifo((folder.path + "/c.3").c_str(), 0600) == 0);
    Fd large = sys::open_file(folder.path + "/c.4", O_WRONLY | O_CREAT, 0600);
    sys::write_all(large.get(), std::string(1 << 20, 'x'), "x");
    for (const char* job : {"c.1", "c.2", "c.3", "c.4"}) {
        INFO(job);
        CHECK_FALSE(folder.of(job).find("r/a:1"));
        CHECK(folder.of(job).keep("r/a:1", digest('2')) == digest('2'));
    }
    CHECK(folder.of("c.0").find("r/a:1") == digest('1'));
    CHECK(folder.content("c.4").size() == 1 << 20);
}

TEST_CASE("answers that no step has used for thirty days are removed", "[host][answers]") {
    Folder folder;
    auto age = [&](const std::string& job, int days) {
        std::filesystem::last_write_time(folder.path + "/" + job, std::filesystem::file_time_type::clock::now() -
                                                                      std::chrono::hours(24 * days));
    };
    for (const char* job : {"c.1", "c.2", "c.3"}) folder.of(job).keep("r/a:1", digest('1'));
    age("c.1", 31);
    age("c.2", 31);
    age("c.3", 29);
    CHECK(folder.of("c.2").find("r/a:1"));
    folder.of("c.4").keep("r/a:1", digest('1'));
    CHECK_FALSE(std::filesystem::exists(folder.path + "/c.1"));
    for (const char* job : {"c.2", "c.3", "c.4"}) CHECK(folder.of(job).find("r/a:1"));
}

TEST_CASE("answers are kept in jobs alone, by cluster and number", "[host][answers]") {
    std::vector<std::string> job = {"SLURM_JOB_ID=7", "SLURM_CLUSTER_NAME=c-1"};
    CHECK(job_answers_file(job, "/home/a") == "/home/a/.cache/berth-jobs/c-1.7");
    CHECK(job_answers_file(job, "").empty());
    CHECK(job_answers_file({"SLURM_CLUSTER_NAME=c"}, "/home/a").empty());
    CHECK(job_answers_file({"SLURM_JOB_ID=7"}, "/home/a").empty());
    CHECK(job_answers_file({"SLURM_JOB_ID=7", "SLURM_CLUSTER_NAME=../x"}, "/home/a").empty());
    CHECK(job_answers_file({"SLURM_JOB_ID=a/b", "SLURM_CLUSTER_NAME=c"}, "/home/a").empty());
}
