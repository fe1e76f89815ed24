// What berth.conf(5) says of keys by which a site takes Enroot's place: the upper layer on disk, mounts and variables
// of the site, propagation of mounts, the home, the shell, and what root inside may do.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/base/sys.hh"
#include "runtime/container/disk_upper.hh"
#include "runtime/images/shell.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// Names in a folder; none where there is no folder.
std::vector<std::string> entries_of(const std::string& folder) {
    std::vector<std::string> out;
    std::error_code problem;
    for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
        out.push_back(entry.path().filename());
    return out;
}

std::string users_folder(const std::string& folder) { return cat(folder, "/berth-", test_uid()); }

std::string upper_site(const std::string& folder) { return cat("[mount]\nupper = \"", folder, "\"\n"); }

/// True when `done` comes to hold within 20 s.
bool comes(const std::function<bool()>& done) {
    for (int tries = 0; tries < 400 && !done(); ++tries) ::usleep(50'000);
    return done();
}

}  // namespace

TEST_CASE("berth.conf(5): mount.upper is where a container without a name keeps what it writes, until its end",
          "[kernel][site][upper]") {
    NEED_CONTAINERS();
    SiteScene scene;
    // The scene's user is root of the node that it makes up.
    const std::string left = scene.folder / "plain/berth-0";
    scene.folder.directory("plain");
    // The file is on the disk's file system, in a folder that nobody else can enter, and gone afterwards.
    const std::string script = cat("echo here > /written; mkdir /closed; touch /closed/x; chmod 0 /closed; cat ",
                                   "/var/plain/berth-*/*/upper/written; stat -c %a /var/plain/berth-*/*");
    Outcome seen = scene.shell(upper_site(scene.folder / "plain"), script, {},
                               {"--mount", cat(scene.folder / "plain", ":/var/plain")});
    CHECK(seen.error == "");
    CHECK(seen.text == "here\n700\n|0");
    CHECK((::access(left.c_str(), F_OK) == 0 && entries_of(left).empty()));
    // With a process namespace of its own, as root, and with a command that fails.
    for (const char* option : {"--pid", "--root"}) {
        CHECK(scene.shell(upper_site(scene.folder / "plain"), script + "; exit 3", {},
                          {option, "--mount", cat(scene.folder / "plain", ":/var/plain")})
                  .text == "here\n700\n|3");
        CHECK(entries_of(left).empty());
    }
    // A path with a job's number means memory outside of one.
    CHECK(scene.shell(upper_site(scene.folder / "jobs/%j"), "echo x > /written && cat /written").text == "x\n|0");
    CHECK(entries_of(scene.folder / "jobs").empty());
}

TEST_CASE("berth.conf(5): mount.upper: kill -9 of berth run leaves nothing on disk", "[kernel][site][upper]") {
    NEED_CONTAINERS();
    ShellScene scene;
    std::string folder = scene.folder / "plain";
    Outcome seen = as_user([&] {
        std::vector<std::string> words = scene.words({}, "echo here > /written; echo ready; sleep 600");
        words.insert(words.begin() + 2, cat("BERTH_MOUNT_UPPER=", folder));
        Beside run(words);
        std::string out;
        read_until(run.output(), out, "ready");
        size_t before = entries_of(users_folder(folder)).size();
        run.send(SIGKILL);
        run.wait();
        bool gone = comes([&] { return entries_of(users_folder(folder)).empty(); });
        return cat(before, gone ? " gone" : " left");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "1 gone");
}

TEST_CASE("mount.upper: what is left by dead processes goes with the next start, what is held stays",
          "[kernel][site][upper]") {
    NEED_CONTAINERS();
    Folder folder;
    Outcome seen = as_user([&] {
        DiskUpper held(folder / "x");
        // As a start whose processes were all killed, and a user's folder beside it, which is none of ours.
        std::filesystem::create_directories(held.storage().path + "0/upper/deep");
        std::filesystem::create_directories(folder / "x/mine");
        { DiskUpper next(folder / "x"); }
        return cat(entries_of(users_folder(folder / "x")).size(), entries_of(folder / "x").size());
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "12");
    CHECK(entries_of(users_folder(folder / "x")).empty());
}

TEST_CASE("hostile: mount.upper: a folder of somebody else's, or a link in its place, is refused",
          "[kernel][site][upper]") {
    Folder folder;
    Outcome open = as_user([&] {
        std::filesystem::create_directories(users_folder(folder / "x"));
        ::chmod(users_folder(folder / "x").c_str(), 0777);
        DiskUpper upper(folder / "x");
        return std::string();
    });
    CHECK_THAT(open.error, Contains("others can write to it") && Contains("mount.upper"));
    Outcome link = as_user([&] {
        std::filesystem::create_directories(folder / "y");
        std::filesystem::create_directory_symlink("/tmp", users_folder(folder / "y"));
        DiskUpper upper(folder / "y");
        return std::string();
    });
    CHECK_THAT(link.error, StartsWith("opening the folder") && Contains("mount.upper"));
}

TEST_CASE("mount.upper: a mark names the folder until the container's end, and leads to what was left",
          "[kernel][site][upper]") {
    Folder folder;
    Outcome seen = as_user([&] {
        std::string mark = folder / "upper-n1.7.0";
        std::string out;
        {
            DiskUpper upper(folder / "x", mark);
            out = slurp(mark) == folder / "x" ? "named " : "not named ";
            // Held: not to be taken away.
            remove_left_upper(mark);
            out += cat(entries_of(users_folder(folder / "x")).size(), " ");
        }
        out += cat(entries_of(users_folder(folder / "x")).size(), ::access(mark.c_str(), F_OK) == 0 ? " mark " : " ");
        std::filesystem::create_directories(users_folder(folder / "x") + "/left");
        std::ofstream(mark) << folder / "x";
        remove_left_upper(mark);
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "named 1 0 ");
}

TEST_CASE("berth.conf(5): [site] mounts and environment are in every container, and the user's add to them",
          "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    scene.folder.file("site", "of the site");
    scene.folder.file("user", "of the user");
    std::string site = cat("[site]\nmounts = [\"", scene.folder / "site", ":/mnt/site:ro\", \"", scene.folder / "site",
                           ":/mnt/both\"]\nenvironment = [\"A=site\", \"U=%U\"]\n"
                           "environment_defaults = [\"NVIDIA_VISIBLE_DEVICES=void\"]\n");
    Outcome seen = scene.shell(site, "cat /mnt/site /mnt/both; echo; echo $A $U $NVIDIA_VISIBLE_DEVICES", {},
                               {"--mount", cat(scene.folder / "user", ":/mnt/both")});
    CHECK(seen.error == "");
    CHECK(seen.text == "of the siteof the user\nsite 0 void\n|0");
    seen = scene.shell(site, "echo $A", {"A=job"}, {"--env", "A"});
    CHECK(seen.text == "job\n|0");
    // The site's mounts are not subject to what users may mount.
    seen = scene.shell(site + "[policy]\nmount_sources = \"/usr\"\n", "cat /mnt/site");
    CHECK(seen.text == "of the site|0");
    seen = scene.berth(site, {"plan", scene.image}, {});
    CHECK_THAT(seen.text, Contains("site.mounts") && Contains("the site's, in place of the image's"));
}

TEST_CASE("berth.conf(5): site.enroot_config reads environ.d and mounts.d at each start", "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    std::string enroot = scene.folder / "enroot", text;
    scene.folder.file("data", "of the site");
    for (const char* name : {"enroot", "enroot/environ.d", "enroot/mounts.d"}) scene.folder.directory(name);
    scene.folder.file("enroot/environ.d/20-b.env", "SECOND=${FROM_JOB}-50%\nFIRST=later\n");
    scene.folder.file("enroot/environ.d/10-a.env", "FIRST=\"early\"\n");
    scene.folder.file("enroot/environ.d/notes", "FIRST=none\n");
    scene.folder.file("enroot/mounts.d/10-site.fstab", cat(scene.folder / "data", " /mnt/data none bind,ro\n",
                                                           "overlay /x overlay lowerdir=/a\n"));
    std::string site = cat("[site]\nenroot_config = \"", enroot, "\"\nenvironment = [\"OURS=1\"]\n");
    const std::string script = "echo $FIRST $SECOND $OURS; cat /mnt/data";
    Outcome seen = scene.shell(site, script, {"FROM_JOB=job"});
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, EndsWith("later job-50% 1\nof the site|0"));
    CHECK_THAT(seen.text, Contains("mounts.d/10-site.fstab:2 is left out: the type overlay is not possible"));
    // What a tool writes later counts from the next start on; what others can write to does not.
    scene.folder.file("enroot/environ.d/30-c.env", "FIRST=last\n");
    CHECK_THAT(scene.shell(site, script, {"FROM_JOB=job"}).text, EndsWith("last job-50% 1\nof the site|0"));
    ::chmod((scene.folder / "enroot/environ.d/30-c.env").c_str(), 0666);
    seen = scene.shell(site, script, {"FROM_JOB=job"});
    CHECK_THAT(seen.text, EndsWith("later job-50% 1\nof the site|0") &&
                              Contains("30-c.env is left out: others than root can write to it"));
    // A path that the job's variable leads to is the job's choice.
    scene.folder.file("enroot/mounts.d/20-job.fstab", "${WHERE} /mnt/job none bind\n");
    seen = scene.shell(site + "[policy]\nmount_sources = \"/usr\"\n", "true", {cat("WHERE=", scene.folder / "data")});
    CHECK_THAT(seen.text, Contains("policy.mount_sources allows mounts from /usr only") && EndsWith("|125"));
}

TEST_CASE("berth.conf(5): defaults.home: an empty home, or one with the image's /etc/skel", "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    scene.image = scene.folder / "root";
    for (const char* name : {"root", "root/etc", "root/usr", "root/etc/skel", "root/etc/skel/.config"})
        scene.folder.directory(name);
    std::filesystem::create_directory_symlink("usr/lib64", scene.folder / "root/lib64");
    std::filesystem::create_directory_symlink("usr/lib", scene.folder / "root/lib");
    scene.folder.file("root/etc/skel/.profile", "of the image");
    scene.folder.file("root/etc/skel/.config/x", "deep");
    std::filesystem::create_symlink("/etc/passwd", scene.folder / "root/etc/skel/link");
    // A device or a pipe is no file of a home.
    ::mkfifo((scene.folder / "root/etc/skel/pipe").c_str(), 0600);
    // The home of the scene's user, root.
    const std::string script = "cd /root && for f in $(find . | sort); do echo \"$f\"; done; readlink link";
    std::string list = ".\n./.config\n./.config/x\n./.profile\n./link\n/etc/passwd\n|0";
    CHECK(scene.shell("[defaults]\nhome = \"skel\"\n", script).text == list);
    CHECK(scene.shell("", "cd /root && find .").text == ".\n|0");
    // What the image has there stays as it is.
    std::filesystem::create_directories(scene.folder / "root/root");
    CHECK(scene.shell("[defaults]\nhome = \"skel\"\n", "cd /root && find .").text == ".\n|0");
}

TEST_CASE("berth.conf(5): security.root_capabilities: root inside may mount, in a namespace of its own too",
          "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    const std::string script =
        "mkdir -p /a && mount -t tmpfs x /a && echo there > /a/b && cat /a/b && unshare -m umount /a && cat /a/b";
    CHECK_THAT(scene.shell("", script, {}, {"--root"}).text, !Contains("there") && !EndsWith("|0"));
    const std::string site = "[security]\nroot_capabilities = \"mount\"\n";
    CHECK(scene.shell(site, script, {}, {"--root"}).text == "there\nthere\n|0");
    CHECK_THAT(scene.shell(site, script).text, !Contains("there") && !EndsWith("|0"));
}

TEST_CASE("the shell of the account, or the image's where it has not that one", "[kernel][site]") {
    NEED_CONTAINERS();
    ShellScene scene;
    Outcome seen = as_user([&] {
        std::string out;
        for (const char* shell : {"/bin/no-such-shell", "/bin/sh"}) {
            plan::Caller caller;
            caller.shell = shell;
            Folder folder;
            folder.directory("root");
            folder.directory("root/bin");
            folder.file("root/bin/sh", "");
            ContainerImage image = make_image([](squash::LayerWriter& writer) { fill_sample(writer); });
            image.directory = folder / "root";
            take_shell(caller, image);
            out += cat("(", caller.shell_of_image, ")");
        }
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "(/bin/sh)()");
}

namespace {

/// A user namespace in which the test user is root of a node with a shared mount, as systemd makes all of them.
void become_node(const std::string& shared) {
    sandbox::enter_user_namespace({test_uid(), 0, test_gid(), 0});
    if (::mount(shared.c_str(), shared.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, shared.c_str(), nullptr, MS_SHARED, nullptr) != 0)
        throw SysError("making a mount of the node");
}

/// Where root inside may mount, and /parent is a mount of the user's that says nothing of propagation.
plan::Plan plan_of_parent(const std::string& parent, plan::Site& site) {
    plan::Request request;
    request.mounts = plan::parse_mounts(parent + ":/parent");
    request.remap_root = true;
    site.security.root_capabilities = plan::RootCapabilities::mount;
    plan::Plan plan = plan::make_plan(request, caller_of_this_process(), {}, site, host_facts(), {});
    plan.sources.everything = true;
    return plan;
}

std::string mount_inside() {
    std::string out = ::access("/parent/later/of-node", F_OK) == 0 ? "appears" : "hidden";
    bool made = ::mount("x", "/parent/later", "tmpfs", 0, nullptr) == 0 &&
                ::close(::open("/parent/later/of-container", O_CREAT | O_WRONLY, 0600)) == 0;
    return out + (made ? " made" : " not made");
}

/// A server in a process of its own, which says over `words` that it is ready, waits for a byte of `go`, says what a
/// task finds, and stays until `go` ends.
pid_t start_server(const std::string& parent, plan::Site site, Fd& words, Fd& go, Fd& our_go) {
    pid_t server = fixtures::forked();
    if (server != 0) return server;
    our_go.reset();
    std::string out;
    try {
        StartedContainer container = start_container(plan_of_parent(parent, site), make_image(fill_sample), site);
        sys::write_all(words.get(), "+", "a pipe");
        char byte;
        (void)!::read(go.get(), &byte, 1);
        out = run_task(container, mount_inside);
        sys::write_all(words.get(), out, "a pipe");
        words.reset();
        (void)!::read(go.get(), &byte, 1);
    } catch (const std::exception& error) {
        sys::write_all(words.get(), error.what(), "a pipe");
    }
    ::_exit(0);
}

/// What a container sees of a mount that the node makes after its start, and the node of one that it makes.
std::string mounts_with(const std::string& parent, plan::Propagation propagation) {
    become_node(parent);
    plan::Site site;
    site.defaults.mount_propagation = propagation;
    auto&& [ours, words] = sys::make_pipe();
    auto&& [go, our_go] = sys::make_pipe();
    pid_t server = start_server(parent, site, words, go, our_go);
    words.reset();
    char byte;
    (void)!::read(ours.get(), &byte, 1);
    std::string later = parent + "/later";
    if (::mount("x", later.c_str(), "tmpfs", 0, nullptr) != 0) throw SysError("mounting on the node");
    std::ofstream(later + "/of-node") << "x";
    sys::write_all(our_go.get(), "x", "a pipe");
    std::string out = sys::read_all(ours.get(), 4096, "a pipe");
    out += ::access((later + "/of-container").c_str(), F_OK) == 0 ? " out" : " kept";
    our_go.reset();
    ::waitpid(server, nullptr, 0);
    return out;
}

}  // namespace

TEST_CASE("berth.conf(5): defaults.mount_propagation: later mounts of the node appear, none of the container's go out",
          "[kernel][site]") {
    NEED_CONTAINERS();
    Folder folder;
    folder.directory("parent");
    folder.directory("parent/later");
    auto seen_with = [&](plan::Propagation propagation) {
        return as_user([&] { return mounts_with(folder / "parent", propagation); });
    };
    Outcome slave = seen_with(plan::Propagation::slave);
    CHECK(slave.error == "");
    CHECK(slave.text == "appears made kept");
    CHECK(seen_with(plan::Propagation::isolated).text == "hidden made kept");
}
