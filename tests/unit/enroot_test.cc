// What command lines and variables of Enroot become: runtime/enroot, and those that count in steps.
#include "runtime/base/error.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/enroot/list.hh"
#include "runtime/enroot/mounts.hh"
#include "runtime/enroot/names.hh"
#include "runtime/enroot/settings.hh"
#include "runtime/enroot/start.hh"
#include "runtime/request/environment_options.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::enroot;
using Catch::Contains;

namespace {

std::string file_of(const std::string& uri) { return base_name_of(image_of(uri)); }

std::string option_of(const std::vector<std::string>& environment, const std::string& name,
                      plan::GivenOptions options = {{"container-image", "debian"}}) {
    plan::add_environment_options(options, environment);
    return plan::given(options, name) != nullptr ? "given" : "not given";
}

}  // namespace

TEST_CASE("enroot: a file without -o is called NAME+TAG", "[enroot]") {
    CHECK(file_of("docker://ubuntu") == "ubuntu+latest");
    CHECK(file_of("docker://alpine:3.20") == "alpine+3.20");
    CHECK(file_of("docker://nvidia/cuda:12.4.1-base-ubuntu22.04") == "nvidia+cuda+12.4.1-base-ubuntu22.04");
    CHECK(file_of("docker://nvcr.io#nvidia/pytorch:24.01-py3") == "nvidia+pytorch+24.01-py3");
    CHECK(file_of("docker://$oauthtoken@nvcr.io#nvidia/nemo:dev") == "nvidia+nemo+dev");
    CHECK(file_of("docker://quay.io/a/b/c:1") == "a+b+c+1");
    CHECK(file_of("dockerd://mlperf-nvidia:language_model") == "mlperf-nvidia+language_model");
    CHECK(file_of("podman://localhost/x/y:z") == "localhost+x+y+z");
    CHECK(file_of("dockerd://plain") == "plain");
    CHECK_THROWS_WITH(image_of("debian:12"), Contains("docker://"));
    CHECK_THROWS_WITH(image_of("/x.sqsh"), Contains("docker://"));
    CHECK(container_of_file("/a/b/cuda+10.0.sqsh") == "cuda+10.0");
    CHECK(container_of_file("x.squashfs") == "x.squashfs");
    CHECK(base_name_of_file("/a/b/root.tar.gz") == "root");
    CHECK(base_name_of_file("./x.sif") == "x");
    CHECK(base_name_of_file("x") == "x");
    CHECK(base_name_of_file("a/.gz") == ".gz");
}

TEST_CASE("enroot: names that begin with pyxis_ are containers of steps", "[enroot]") {
    CHECK(places_of("train") == std::vector<Place>{{Place::Kind::own, "train"}});
    CHECK(places_of("pyxis_train") == std::vector<Place>{{Place::Kind::shared, "train"}});
    CHECK(places_of("pyxis_12_train") ==
          std::vector<Place>{{Place::Kind::job, "train", 12}, {Place::Kind::shared, "12_train"}});
    CHECK(places_of("pyxis_12") == std::vector<Place>{{Place::Kind::shared, "12"}});
    CHECK(places_of("pyxis_0_x") == std::vector<Place>{{Place::Kind::shared, "0_x"}});
    CHECK(places_of("pyxis_") == std::vector<Place>{{Place::Kind::own, "pyxis_"}});
    for (const char* name : {"train", "pyxis_train", "pyxis_12_train"}) CHECK(places_of(name)[0].shown() == name);
    CHECK_THROWS_AS(places_of("a/b"), Error);
    CHECK_THROWS_AS(places_of(""), Error);
}

TEST_CASE("enroot: mounts are lines of fstab with colons", "[enroot]") {
    CHECK(mount_of_words("/data") == "/data:/data");
    CHECK(mount_of_words("/data:/mnt") == "/data:/mnt");
    CHECK(mount_of_words(".:mnt") == ".:/mnt");
    CHECK(mount_of_words("data:/mnt") == "./data:/mnt");
    CHECK(mount_of_words("/data:/mnt:ro") == "/data:/mnt:ro");
    CHECK(mount_of_words("/data:ro") == "/data:/data:ro");
    CHECK(mount_of_words("/data:/mnt:none:x-create=dir,bind,ro") == "/data:/mnt:x-create=dir+bind+ro");
    CHECK(mount_of_words("tmpfs:/scratch:tmpfs:size=1G,x-create=dir") == "tmpfs:/scratch:size=1G+x-create=dir");
    CHECK(mount_of_words("tmpfs:/scratch") == "tmpfs:/scratch");
    CHECK(mount_of_words("none:/sys:x-detach,nofail") == "umount:/sys:x-detach+nofail");
    CHECK(mount_of_words("/a,b:/c") == "/a\\,b:/c");
    CHECK_THROWS_WITH(mount_of_words("none:/proc:proc"), Contains("type proc"));
    CHECK(mount_of_words("/d.sqsh:/mnt:squashfs") == "/d.sqsh:/mnt:squashfs");
    CHECK(mount_of_words("/d.sqsh:/mnt:squashfs:loop,nofail") == "/d.sqsh:/mnt:squashfs+loop+nofail");
    CHECK(mount_of_line("/d.sqsh /mnt squashfs loop,ro,x-create=dir 0 0") ==
          "/d.sqsh:/mnt:squashfs+loop+ro+x-create=dir");
    CHECK_THROWS_AS(mount_of_words(""), Error);
    CHECK(mount_of_line("/tmp/.X11-unix /tmp/.X11-unix none x-create=dir,bind 0 0") ==
          "/tmp/.X11-unix:/tmp/.X11-unix:x-create=dir+bind");
    CHECK(mount_of_line("  /a\t/b none bind") == "/a:/b:bind");
    CHECK(mount_of_line("# a comment").empty());
    CHECK(mount_of_line("").empty());
}

TEST_CASE("enroot: variables, and those that are passed over", "[enroot]") {
    Settings none = settings_of({"HOME=/root"});
    CHECK(none.login_shell);
    CHECK(!none.remap_root);
    CHECK(!none.mount_home);
    Settings some = settings_of({"ENROOT_REMAP_ROOT=y", "ENROOT_LOGIN_SHELL=n", "ENROOT_MOUNT_HOME=yes",
                                 "ENROOT_ROOTFS_WRITABLE=", "ENROOT_DATA_PATH=/raid/x", "ENROOT_FORCE_OVERRIDE=f"});
    CHECK(some.remap_root);
    CHECK(!some.login_shell);
    CHECK(some.mount_home == true);
    CHECK(!some.writable);
    CHECK(!some.force);
    CHECK(some.data_path == "/raid/x");
    CHECK_THROWS_WITH(settings_of({"ENROOT_REMAP_ROOT=perhaps"}), Contains("ENROOT_REMAP_ROOT=perhaps"));
    CHECK(passed_over_note({"ENROOT_CONFIG_PATH=/x", "ENROOT_PASSWORD=x", "ENROOT_REMAP_ROOT=no", "ENROOT_CACHE_PATH="})
              .empty());
    CHECK_THAT(passed_over_note({"ENROOT_ZSTD_OPTIONS=-1", "ENROOT_CACHE_PATH=/x", "PATH=/bin"}),
               Contains("ENROOT_CACHE_PATH, ENROOT_ZSTD_OPTIONS"));
    CHECK(passed_over_in_step_note({"ENROOT_REMAP_ROOT=yes", "ENROOT_PASSWORD=x", "ENROOT_CONFIG_PATH=/x"}).empty());
    CHECK_THAT(passed_over_in_step_note({"ENROOT_DATA_PATH=/x"}),
               Contains("ENROOT_DATA_PATH") && Contains("--container-name=NAME-%j"));
    CHECK(passed_over_in_step_note({"ENROOT_DATA_PATH=/x"}, true).empty());
    CHECK_THAT(passed_over_in_step_note({"ENROOT_DATA_PATH=/x", "ENROOT_CACHE_PATH=/y"}, true),
               Contains("ENROOT_CACHE_PATH") && !Contains("ENROOT_DATA_PATH") && !Contains("%j"));
}

TEST_CASE("enroot: a data path is a scope by its text", "[enroot][data_path]") {
    CHECK(absolute_data_path("", "/w").empty());
    CHECK(absolute_data_path("/tmp/x//data/", "/w") == "/tmp/x/data");
    CHECK(absolute_data_path("d/../data/.", "/w") == "/w/data");
    CHECK(absolute_data_path("/", "/w") == "/");
    // Containers that are there are found by these.
    CHECK(scope_of_path("/tmp/enroot-12/data") == "enroot-13ddd79f43a645d2");
    CHECK(scope_of_path_in_steps("/tmp/enroot-12/data") == "path-13ddd79f43a645d2");
    CHECK(scope_of_path("/tmp/enroot-13/data") != scope_of_path("/tmp/enroot-12/data"));
    // Whatever is in the text, a folder's name has the same length, and no line and no slash in it.
    for (const std::string& path : {std::string("/"), std::string("/a_b\n/c"), std::string(5000, 'x')}) {
        CHECK(scope_of_path(path).size() == 23);
        CHECK(scope_of_path(path).find_first_not_of("enroot-0123456789abcdef") == std::string::npos);
    }
    CHECK(is_scope_of_path("enroot-13ddd79f43a645d2"));
    CHECK(is_scope_of_path("path-13ddd79f43a645d2"));
    for (const char* other : {"enroot", "global", "job12"}) CHECK(!is_scope_of_path(other));
    CHECK(is_scope_of_program("enroot"));
    CHECK(is_scope_of_program("enroot-13ddd79f43a645d2"));
    CHECK(!is_scope_of_program("path-13ddd79f43a645d2"));
}

TEST_CASE("enroot: a data path is a job's where it has the job's number and no other job can have it",
          "[enroot][data_path]") {
    std::vector<std::string> job = {"SLURM_JOB_ID=12"};
    for (const char* path : {"/tmp/enroot-12/data", "/tmp/12", "/tmp/12/x", "/tmp/j12_x", "/a/112/b12"})
        CHECK(job_of_path(path, job, 1000) == 12);
    for (const char* path : {"/tmp/enroot/data", "/tmp/112", "/tmp/120", "/tmp/x/1-2", ""})
        CHECK(job_of_path(path, job, 1000) == 0);
    CHECK(job_of_path("/tmp/user-12/data", job, 12) == 0);
    CHECK(job_of_path("/tmp/12", {}, 1000) == 0);
    CHECK(job_of_path("/tmp/0", {"SLURM_JOB_ID=0"}, 1000) == 0);
    CHECK(job_of_path("/tmp/x", {"SLURM_JOB_ID=x"}, 1000) == 0);
    // Task 3 of the array 12 is job 15, and its last task is job 12 itself.
    std::vector<std::string> third = {"SLURM_JOB_ID=15", "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3"},
                             last = {"SLURM_JOB_ID=12", "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=4"};
    CHECK(job_of_path("/tmp/15", third, 1000) == 15);
    CHECK(job_of_path("/tmp/12_3/data", third, 1000) == 15);
    CHECK(job_of_path("/tmp/12_30/data", third, 1000) == 0);
    CHECK(job_of_path("/tmp/12", third, 1000) == 0);
    CHECK(job_of_path("/tmp/12", last, 1000) == 0);
    CHECK(job_of_path("/tmp/12_4", last, 1000) == 12);
}

TEST_CASE("enroot: what is noted of a data path can be read again, with what a later release adds",
          "[enroot][data_path][release]") {
    DataPath path{"/tmp/a b\n/12", 12, {"/run/berth/7/steps/job-12", "/sys/fs/cgroup/job_12"}};
    CHECK(parse_data_path(data_path_text(path)) == path);
    CHECK(parse_data_path(data_path_text({"/x", 0, {}})) == DataPath{"/x", 0, {}});
    CHECK(parse_data_path("later 3\nyes\n" + data_path_text(path)) == path);
    for (const char* damaged : {"", "x", "path 900\n/x", "job 1\nx\n"})
        CHECK(parse_data_path(damaged) == DataPath{});
}

TEST_CASE("enroot: start is read-only and the user's own, unless it is asked otherwise", "[enroot]") {
    plan::Request plain = request_of({}, {});
    CHECK(plain.writable == false);
    CHECK(plain.remap_root == false);
    CHECK(!plain.mount_home);
    CHECK(plain.entrypoint == true);
    StartWords words;
    words.mounts = {"/b:/m"};
    words.entries = {"/a /m none bind", ""};
    words.root = words.rw = words.pid = true;
    plan::Request request = request_of(words, settings_of({"ENROOT_MOUNT_HOME=no"}));
    CHECK(request.writable == true);
    CHECK(request.remap_root == true);
    CHECK(request.mount_home == false);
    CHECK(request.unshare.pid);
    REQUIRE(request.mounts.size() == 2);
    CHECK(request.mounts[1].source == "/b");
    words.has_script = true;
    CHECK(request_of(words, {}).entrypoint == false);
    CHECK(wrapper_of(settings_of({"ENROOT_LOGIN_SHELL=no"})).empty());
    CHECK(wrapper_of({}).size() == 4);
    std::vector<std::string> script = script_command("echo \"$1\"", {"a b"});
    CHECK(script[4] == "echo \"$1\"");
    CHECK(script.back() == "a b");
    CHECK_THROWS_WITH(script_command(std::string(1 << 17, 'x'), {}), Contains("131072 bytes"));
    CHECK(passes("TERM"));
    CHECK(passes("SLURM_PROCID"));
    CHECK(!passes("LD_LIBRARY_PATH"));
    CHECK(!passes("PYTHONPATH"));
}

TEST_CASE("enroot: the table of list --fancy has the columns of ps", "[enroot]") {
    std::string stat = "4321 (a (odd) name) S 1 4321 4321 34816 4321 4194304 1 2 3 4 5 6 7 8 20 0 3 0 250000 1 2 3";
    ListedProcess one = listed({4321, stat, std::string_view("sleep\0infinity\0", 15), 4026532001, 4026532002},
                               {.now = 1'000'000 + 2500 + 3725, .boot = 1'000'000, .ticks = 100});
    CHECK(one.comm == "a (odd) name");
    CHECK(one.state == "Ssl+");
    CHECK(one.time == "01:02:05");
    CHECK(one.mount_namespace == "4026532001");
    CHECK(one.command == "sleep infinity");
    CHECK(listed({4321, stat, "", 1, 2}, {.now = 1'000'000 + 2500 + 90'000, .boot = 1'000'000}).time == "01-01:00:00");
    CHECK_THROWS_AS(listed({1, "1 (x) S", "", 1, 2}, {}), Error);
    one.started = "12:34";
    one.comm = "sleep";
    ListedProcess other = one;
    other.pid = 5;
    std::string table = fancy_table({{"alone", {}}, {"pyxis_train", {one, other}}});
    CHECK(table ==
          "NAME         PID   COMM   STATE  STARTED  TIME      MNTNS       USERNS      COMMAND\n"
          "alone\n"
          "pyxis_train  4321  sleep  Ssl+   12:34    01:02:05  4026532001  4026532002  sleep infinity\n"
          "             5     sleep  Ssl+   12:34    01:02:05  4026532001  4026532002  sleep infinity\n");
}

TEST_CASE("row 10: variables of Enroot count in steps, behind options and Berth's own variables", "[enroot]") {
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes"}, "container-remap-root") == "given");
    CHECK(option_of({"ENROOT_REMAP_ROOT=no"}, "no-container-remap-root") == "given");
    CHECK(option_of({"ENROOT_MOUNT_HOME=y"}, "container-mount-home") == "given");
    CHECK(option_of({"ENROOT_ROOTFS_WRITABLE=n"}, "container-readonly") == "given");
    CHECK(option_of({"ENROOT_REMAP_ROOT="}, "container-remap-root") == "not given");
    // An option, or a variable of Berth's or Pyxis', says more.
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes"}, "container-remap-root",
                    {{"container-image", "debian"}, {"no-container-remap-root", ""}}) == "not given");
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes", "PYXIS_CONTAINER_REMAP_ROOT=no"}, "container-remap-root") ==
          "not given");
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes", "PYXIS_CONTAINER_REMAP_ROOT=no"}, "no-container-remap-root") ==
          "given");
    // They ask for no container.
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes"}, "container-remap-root", {}) == "not given");
    CHECK(option_of({"ENROOT_REMAP_ROOT=yes", "BERTH_CONTAINER_IMAGE=debian"}, "container-remap-root", {}) == "given");
    CHECK_THROWS_WITH(option_of({"ENROOT_REMAP_ROOT=perhaps"}, "container-remap-root"), Contains("ENROOT_REMAP_ROOT"));
    CHECK(option_of({"ENROOT_REMAP_ROOT=perhaps"}, "container-remap-root", {}) == "not given");
}
