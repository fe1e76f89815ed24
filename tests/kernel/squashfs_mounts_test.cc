// Squashfs files whose content a container has at paths of its own.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/file.hh"
#include "runtime/plan/policy.hh"
#include "runtime/request/mounts.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

constexpr size_t large_size = 300000;

std::string large() { return fixtures::random_bytes(large_size, 7); }

std::string lister() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "list_tree"; }

/// A folder with a tree, and squashfs files of it.
struct DataScene : Folder {
    DataScene() {
        for (const char* name : {"tree", "tree/sub", "tree/many"}) directory(name);
        file("tree/name", "of the data\n");
        file("tree/sub/name", "of a folder\n");
        file("tree/large", large());
        for (int i = 0; i < 300; ++i) file(cat("tree/many/", i), cat("content of ", i, "\n"));
        REQUIRE(::symlink("sub/name", (*this / "tree/link").c_str()) == 0);
        make("data.sqsh");
    }
    void make(const std::string& name, const std::string& options = "-comp zstd") const {
        const std::string file = *this / name;
        const std::string words = cat("rm -f ", file, "; mksquashfs ", *this / "tree", " ", file,
                                      " -noappend -quiet -no-progress -p 'sub/name m 40 0 0' ", options,
                                      " 2>&1 > /dev/null");
        std::string said = output_of({"/bin/sh", "-c", words});
        INFO(said);
        REQUIRE(said.ends_with("|0"));
        REQUIRE(::chmod(file.c_str(), 0644) == 0);
        if (::geteuid() == 0) REQUIRE(::chown(file.c_str(), test_uid(), test_gid()) == 0);
    }
    /// A plan with these mounts, @ standing for the folder.
    plan::Plan plan(std::string mounts, const plan::Site& site = {}, const std::string& more = {}) const {
        for (size_t at; (at = mounts.find('@')) != mounts.npos;) mounts.replace(at, 1, *this / "");
        plan::Request request;
        request.mounts = plan::parse_mounts(mounts + more);
        plan::Caller caller;
        caller.uid = test_uid();
        caller.gid = test_gid();
        caller.cwd = "/";
        plan::Plan out = plan::make_plan(request, caller, {}, site, user_facts(), {});
        out.sources = plan::judge_sources(site, out.edits, real_paths(plan::policy_paths(site, out.edits)));
        return out;
    }
    std::string refusal(const std::string& mounts) const {
        Outcome seen = in_container(plan(mounts), fill_sample, [] { return std::string("it runs"); });
        return seen.error.empty() ? seen.text : seen.error;
    }
};

std::string flags_of(const char* path) {
    struct statvfs st {};
    if (::statvfs(path, &st) != 0) return "none";
    std::string out;
    if (st.f_flag & ST_RDONLY) out += "ro ";
    if (st.f_flag & ST_NOSUID) out += "nosuid ";
    if (st.f_flag & ST_NODEV) out += "nodev ";
    if (st.f_flag & ST_NOEXEC) out += "noexec ";
    return out;
}

/// The bytes of a file, or the reason why they cannot be read.
std::string read_or_why(const std::string& path) {
    Fd file = sys::try_open_at(AT_FDCWD, path, O_RDONLY);
    if (!file) return reason(errno);
    std::string out(1 << 20, '\0');
    size_t size = 0;
    for (;;) {
        ssize_t got = ::read(file.get(), out.data() + size, out.size() - size);
        if (got < 0) return reason(errno);
        if (got == 0) return out.substr(0, size);
        size += static_cast<size_t>(got);
    }
}

}  // namespace

TEST_CASE("squashfs mount: a file's content is there, read-only, at a path that is made",
          "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    plan::Plan plan = scene.plan(
        "@data.sqsh:/new/place/data:squashfs,@data.sqsh:/again:squashfs+noexec,@gone.sqsh:/gone:squashfs+nofail");
    Outcome seen = in_container(plan, fill_sample, [] {
        return in_order({slurp("/new/place/data/name"), slurp("/new/place/data/link"), slurp("/again/many/299"),
                         slurp("/new/place/data/large") == large() ? "all of it" : "wrong bytes",
                         flags_of("/new/place/data"), flags_of("/again"),
                         write_to("/new/place/data/name", "x"), verdict(::mkdir("/again/x", 0755)),
                         verdict(::access("/gone", F_OK)), verdict(::access("/new/place/data/data", F_OK))});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == in_order({"of the data\n", "of a folder\n", "content of 299\n", "all of it", "ro nosuid nodev ",
                                 "ro nosuid nodev noexec ", "Read-only file system", "Read-only file system",
                                 "No such file or directory", "No such file or directory"}));
}

TEST_CASE("squashfs mount: files of every compressor are what they are as an image", "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    for (const char* format :
         {"gzip", "lz4", "xz", "lzo", "zstd -no-fragments", "zstd -b 4096", "lz4 -noI -noD -noF"}) {
        INFO(format);
        scene.make("data.sqsh", cat("-comp ", format));
        const std::string file = scene / "data.sqsh";
        // The image is the data file, too. Its mount point is the one of its directories that is empty.
        auto listing = [&](const char* root) {
            Outcome seen = as_user([&] {
                plan::Plan plan = bare_plan();
                plan::Edit data = bind_of(file, "/run/data", true);
                std::get<plan::Mount>(data.action).kind = plan::Mount::Kind::squashfs;
                plan.edits = {bind_of(lister(), "/run/lister", true), data};
                StartedContainer container = start_container(plan, open_image_file(file), {});
                return run_task(container, [&] { return output_of({"/run/lister", root}); });
            });
            CHECK(seen.error == "");
            std::vector<std::string> lines;
            for (const std::string& line : split(seen.text, '\n'))
                if (!line.starts_with(".\t") && !line.starts_with("run") && !line.starts_with("./run"))
                    lines.push_back(line);
            return lines;
        };
        std::vector<std::string> as_image = listing("/"), as_data = listing("/run/data");
        CHECK(as_data.size() >= 306);
        CHECK(as_image == as_data);
    }
}

TEST_CASE("squashfs mount: what is no such file is refused in one line", "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    auto refused = [&](const std::string& name, const std::string& why) {
        INFO(name);
        std::string line = scene.refusal(cat("@", name, ":/data:squashfs"));
        CHECK_THAT(line, Contains(cat("mounting ", scene / name, " at /data (option --container-mounts): ")) &&
                             Contains(why));
        CHECK(line.find('\n') == line.npos);
    };
    refused("gone.sqsh", "the source path does not exist on this node");
    refused("tree", "it is a directory; leave the flag squashfs out");
    scene.file("text", std::string(5000, 'x'));
    refused("text", "it is not a squashfs file");
    scene.file("empty", "");
    refused("empty", "it is too short for a squashfs file");
    REQUIRE(::mkfifo((scene / "fifo").c_str(), 0666) == 0);
    refused("fifo", "it is no regular file");
    std::string whole = sys::read_file(scene / "data.sqsh", 4 << 20);
    for (size_t size : {size_t{50}, size_t{96}, size_t{4096}, whole.size() / 2, whole.size() - 5000}) {
        scene.file("short", whole.substr(0, size));
        refused("short", size < 96 ? "it is too short for a squashfs file" : "but should have ");
    }
    scene.file("closed", whole);
    REQUIRE(::chmod((scene / "closed").c_str(), 0) == 0);
    refused("closed", "opening the source: Permission denied");
    // What lies below a read-only directory cannot be made there.
    CHECK_THAT(scene.refusal("@data.sqsh:/data:squashfs,@tree:/data/new"), Contains("Read-only file system"));
    CHECK(scene.refusal("@data.sqsh:/data:squashfs,@tree/sub:/data/sub") == "it runs");
    CHECK_THAT(scene.refusal("@data.sqsh:/etc/passwd:squashfs"), Contains("the target is no directory"));
}

TEST_CASE("squashfs mount: of whom and where a file may be is the site's policy",
          "[kernel][mounts][policy][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    scene.directory("allowed");
    scene.directory("secret");
    for (const char* name : {"allowed/d.sqsh", "secret/d.sqsh"}) {
        std::filesystem::copy_file(scene / "data.sqsh", scene / name);
        if (::geteuid() == 0) REQUIRE(::chown((scene / name).c_str(), test_uid(), test_gid()) == 0);
    }
    auto outcome = [&](const plan::Plan& plan, const plan::Site& site) {
        ContainerImage image = make_image(fill_sample);
        return as_user([&] {
            StartedContainer container = start_container(plan, std::move(image), site);
            return run_task(container, [] { return slurp("/data/name"); });
        });
    };
    plan::Site by_place =
        plan::parse_site(cat("[policy]\nmount_sources = \"", scene / "allowed", "\"\n"), "berth.conf");
    CHECK(outcome(scene.plan("@allowed/d.sqsh:/data:squashfs", by_place), by_place).text == "of the data\n");
    // A link that leads elsewhere once it was judged.
    const std::string link = scene / "allowed/link";
    REQUIRE(::symlink("d.sqsh", link.c_str()) == 0);
    plan::Plan judged = scene.plan("@allowed/link:/data:squashfs", by_place);
    CHECK(outcome(judged, by_place).text == "of the data\n");
    REQUIRE((::unlink(link.c_str()) == 0 && ::symlink("../secret/d.sqsh", link.c_str()) == 0));
    CHECK_THAT(outcome(judged, by_place).error,
               Contains(cat("mounting ", link, " at /data (option --container-mounts): it leads to ",
                            scene / "secret/d.sqsh", ", and berth.conf:2: policy.mount_sources allows mounts from ")));
    // Its owner.
    std::string user = std::to_string(test_uid());
    auto owned = [&](const std::string& owners) {
        plan::Site site = plan::parse_site(cat("[policy]\nimage_owners = \"", owners, "\"\n"), "berth.conf");
        return outcome(scene.plan("@data.sqsh:/data:squashfs", site), site);
    };
    CHECK(owned("root " + user).text == "of the data\n");
    CHECK_THAT(owned("daemon").error, Contains(cat("mounting ", scene / "data.sqsh", " at /data")) &&
                                          Contains("policy.image_owners allows image files of daemon only"));
    REQUIRE(::chmod((scene / "data.sqsh").c_str(), 0666) == 0);
    CHECK_THAT(owned(user).error, Contains("nobody but their owner can write to"));
    // What the site mounts is the site's.
    plan::Site of_site = plan::parse_site("[policy]\nimage_owners = \"daemon\"\n", "berth.conf");
    of_site.site.mounts = {scene / "data.sqsh:/data:squashfs"};
    plan::Plan plan = scene.plan("tmpfs:/other", of_site);
    CHECK(outcome(plan, of_site).text == "of the data\n");
}

TEST_CASE("hostile: a data file that is written to while it is used gives errors, and no wrong byte",
          "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    const std::string file = scene / "data.sqsh";
    bool truncated = GENERATE(false, true);
    plan::Plan plan = scene.plan("@data.sqsh:/data:squashfs", {}, cat(",", scene / "", ":/host"));
    Outcome seen = in_container(plan, fill_sample, [&] {
        std::string before = read_or_why("/data/name"), out;
        // Its user, or another job of his: in place, with all of its size in other bytes.
        Fd open = sys::open_file("/host/data.sqsh", O_RDWR);
        struct stat st = sys::stat_of(open.get(), "the file");
        std::string bytes = fixtures::random_bytes(static_cast<size_t>(st.st_size) - 4096, 9);
        if (truncated ? ::ftruncate(open.get(), 4096) != 0
                      : ::pwrite(open.get(), bytes.data(), bytes.size(), 4096) != static_cast<ssize_t>(bytes.size()))
            throw SysError("writing");
        // What the kernel has is what it was.
        out = before == read_or_why("/data/name") && before == "of the data\n" ? "as before, " : "other, ";
        std::string now = read_or_why("/data/large");
        out += now == large() ? "unchanged, " : now == "Input/output error" ? "error, " : "wrong bytes, ";
        for (int i = 0; i < 300; ++i) {
            std::string one = read_or_why(cat("/data/many/", i));
            if (one != "Input/output error" && one != cat("content of ", i, "\n")) return cat("wrong bytes in ", i);
        }
        // The image's own files are served by the same process.
        return out + (read_or_why("/bin/inside").starts_with("\177ELF") ? "the image is served" : "no image");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "as before, error, the image is served");
}

TEST_CASE("squashfs mount: its modes and numbers are those that an image would have", "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    auto look = [&](const plan::Site& site, bool old_programs) {
        ContainerImage image = make_image([&](squash::LayerWriter& writer) {
            fill_sample(writer);
            if (old_programs) add_file(writer, "lib/ld-linux.so.2", "a loader", 0755);
        });
        plan::Plan plan = scene.plan("@data.sqsh:/data:squashfs");
        Outcome seen = as_user([&] {
            StartedContainer container = start_container(plan, std::move(image), site);
            return run_task(container, [] {
                struct stat file {}, directory {};
                if (::stat("/data/name", &file) != 0 || ::stat("/data/sub", &directory) != 0)
                    return std::string("none");
                return cat(mode_of("/data/sub/name").substr(0, 6), file.st_dev == directory.st_dev ? " one device" : "",
                           file.st_ino <= UINT32_MAX ? " small" : "");
            });
        });
        CHECK(seen.error == "");
        return seen.text;
    };
    plan::Site site;
    CHECK(look(site, false) == "100440 one device");
    CHECK_THAT(look(site, true), Contains(" small"));
    site.mount.modes = plan::ImageModes::image;
    CHECK(look(site, false) == "100040 one device");
}

TEST_CASE("squashfs mount: named containers, and berth run, have them as long as they run",
          "[kernel][mounts][named][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    ShellScene named;
    plan::Request request;
    request.mounts = plan::parse_mounts(scene / "data.sqsh:/data:squashfs");
    for (int i = 0; i < 2; ++i) {
        Outcome seen = named.outcome("dev", [] { return slurp("/data/sub/../name"); }, request);
        CHECK(seen.error == "");
        CHECK(seen.text == "of the data\n");
    }
    const std::string mount = scene / "data.sqsh:/data:squashfs";
    CHECK(named.shell({"--mount", mount}, "cat /data/name; touch /data/x") ==
          "of the data\ntouch: cannot touch '/data/x': Read-only file system\n|1");
    std::string plan = named.program("berth", {"plan", "--mount", mount, named.image});
    CHECK_THAT(plan, Contains("squashfs") && Contains(scene / "data.sqsh ro"));
}

TEST_CASE("squashfs mount: who reads of many small files soon has all of them in memory",
          "[kernel][mounts][squashfs][sweep]") {
    NEED_CONTAINERS();
    DataScene scene;
    for (int i = 300; i < 2100; ++i) scene.file(cat("tree/many/", i), cat("content of ", i, "\n"));
    scene.make("data.sqsh");
    plan::Site site;
    site.mount.prefetch_guess = GENERATE(true, false);
    auto is_there = [](int number) {
        Fd file = sys::try_open_at(AT_FDCWD, cat("/data/many/", number), O_RDONLY);
        void* memory = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file.get(), 0);
        unsigned char page = 0;
        bool known = memory != MAP_FAILED && ::mincore(memory, 1, &page) == 0;
        if (memory != MAP_FAILED) ::munmap(memory, 1);
        return known && (page & 1) != 0;
    };
    plan::Plan plan = scene.plan("@data.sqsh:/data:squashfs");
    ContainerImage image = make_image(fill_sample);
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), site);
        return run_task(container, [&] {
            std::string text = is_there(2099) ? "there before, " : "";
            for (int i = 0; i < 256; ++i)
                if (read_or_why(cat("/data/many/", i)) != cat("content of ", i, "\n")) return text + "wrong bytes";
            bool swept = site.mount.prefetch_guess ? fixtures::comes_true([&] { return is_there(2099); })
                                                   : is_there(2099);
            return text + (swept ? "there" : "not there");
        });
    }, std::chrono::seconds(60));
    CHECK(seen.error == "");
    CHECK(seen.text == (site.mount.prefetch_guess ? "there" : "not there"));
}

TEST_CASE("squashfs mount: SIGKILL of the file server ends it, and nobody hangs", "[kernel][mounts][squashfs]") {
    NEED_CONTAINERS();
    DataScene scene;
    plan::Plan plan = scene.plan("@data.sqsh:/data:squashfs");
    ContainerImage image = make_image(fill_sample);
    Outcome seen = as_user([&] {
        auto&& [told, tell] = sys::make_pipe();
        pid_t server = fixtures::forked();
        if (server == 0) {
            StartedContainer container = start_container(plan, std::move(image), {});
            pid_t task = fixtures::forked();
            if (task == 0) {
                join_container(container);
                std::string first = read_or_why("/data/name"), later;
                (void)!::write(tell.get(), "+", 1);
                // Each is read for the first time.
                for (int i = 0; i < 300 && later != "Transport endpoint is not connected"; ++i) {
                    later = read_or_why(cat("/data/many/", i % 300));
                    ::usleep(20000);
                }
                std::string text = first == "of the data\n" ? later : "wrong bytes";
                (void)!::write(tell.get(), text.data(), text.size());
                ::_exit(0);
            }
            for (;;) ::pause();
        }
        tell.reset();
        char sign = 0;
        if (::read(told.get(), &sign, 1) != 1) return std::string("no start");
        fixtures::kill_one(server, SIGKILL);
        ::waitpid(server, nullptr, 0);
        return sys::read_all(told.get(), 4096, "what the task says");
    }, std::chrono::seconds(40));
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "Transport endpoint is not connected");
}
