// The site's policy on the way to a container: what was judged is what is mounted, whatever named its source.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "hooks/devices.hh"
#include "runtime/base/sys.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/open.hh"
#include "runtime/mount/rootfs/binds.hh"
#include "runtime/request/reference.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

/// A folder from which users may mount, and one from which they may not.
struct Places : Folder {
    Places() {
        for (const char* name : {"allowed", "allowed/data", "secret"}) directory(name);
        file("allowed/data/name", "allowed");
        file("secret/name", "secret");
    }
    std::string policy() const {
        std::string folder = *this / "allowed";
        return cat("[policy]\nmount_sources = \"", folder, "\"\nimage_paths = \"", folder, "\"\n");
    }
    /// Makes allowed/NAME a symlink to `target`, as its user can at any time.
    void lead(const std::string& name, const std::string& target) const {
        std::string link = *this / ("allowed/" + name);
        ::unlink(link.c_str());
        if (::symlink((*this / target).c_str(), link.c_str()) != 0) throw SysError("making a symlink");
    }
};

plan::Plan judged_plan(const Places& places, const std::string& source) {
    plan::Request request;
    request.mounts = plan::parse_mounts(source + ":/empty");
    plan::Caller caller;
    caller.uid = test_uid();
    caller.gid = test_gid();
    caller.cwd = "/";
    plan::Site site = plan::parse_site(places.policy(), "berth.conf");
    plan::Plan plan = plan::make_plan(request, caller, {}, site, {}, {});
    plan.sources = plan::judge_sources(site, plan.edits, real_paths(plan::policy_paths(site, plan.edits)));
    return plan;
}

/// What became of sources that were taken while their name changed hands.
struct Takings {
    unsigned taken = 0, refused = 0, wrong = 0;

    std::string text() const { return cat(taken, " ", refused, " ", wrong); }
    void add(const Outcome& part) {
        if (!part.error.empty() || part.hung) throw Error(cat("taking sources: ", part.hung ? "hung" : part.error));
        std::vector<std::string> words = split(part.text, ' ');
        taken += static_cast<unsigned>(std::stoul(words.at(0)));
        refused += static_cast<unsigned>(std::stoul(words.at(1)));
        wrong += static_cast<unsigned>(std::stoul(words.at(2)));
    }
};

/// Takes the sources of a plan in a mount namespace of its own. With the calls of older kernels (runtime/base/
/// old_mounts) what was taken lies there until the namespace ends, and each further mount is looked up among them.
std::string take_often(const plan::Plan& plan, ino_t secret, unsigned rounds) {
    sandbox::enter_user_namespace(plan.identity);
    Takings out;
    for (unsigned round = 0; round < rounds; ++round) try {
            std::vector<mount::Source> sources = mount::take_sources(plan.edits, plan.sources);
            ++out.taken;
            out.wrong += sys::stat_of(sources.back().tree.get(), "the source").st_ino == secret;
        } catch (const Error& error) {
            // Nothing else may fail.
            if (std::string(error.what()).find("policy.mount_sources allows") == std::string::npos) throw;
            ++out.refused;
        }
    return out.text();
}

}  // namespace

TEST_CASE("policy: a source that leads elsewhere once it was judged is not mounted", "[kernel][policy]") {
    NEED_CONTAINERS();
    Places places;
    auto name_inside = [&](const plan::Plan& plan) {
        return in_container(plan, fill_sample, [] { return slurp("/empty/name"); });
    };
    places.lead("link", "allowed/data");
    plan::Plan plan = judged_plan(places, places / "allowed/link");
    CHECK(name_inside(plan).text == "allowed");
    places.lead("link", "secret");
    CHECK_THAT(name_inside(plan).error,
               Contains(cat("mounting ", places / "allowed/link",
                            " at /empty (option --container-mounts): it leads to ", places / "secret",
                            ", and berth.conf:2: policy.mount_sources allows mounts from ")));
    // A folder on the way, and a file.
    places.lead("way", "allowed");
    plan::Plan through = judged_plan(places, places / "allowed/way/data");
    CHECK(name_inside(through).text == "allowed");
    REQUIRE(::mkdir((places / "secret/data").c_str(), 0755) == 0);
    places.lead("way", "secret");
    CHECK_THAT(name_inside(through).error, Contains("it leads to ") && Contains("/secret/data"));
}

TEST_CASE("policy: of ten thousand mounts of a name that changes hands none is of what is not allowed",
          "[kernel][policy][race]") {
    NEED_CONTAINERS();
    Places places;
    REQUIRE(::mkdir((places / "allowed/one").c_str(), 0755) == 0);
    places.lead("other", "secret");
    plan::Plan plan = judged_plan(places, places / "allowed/one");
    // The others are not raced for.
    plan.edits.erase(plan.edits.begin(), plan.edits.end() - 1);
    REQUIRE(std::get<plan::Mount>(plan.edits.at(0).action).source == places / "allowed/one");
    ino_t secret = sys::stat_of(sys::open_file(places / "secret", O_PATH).get(), "secret").st_ino;
    Outcome seen = as_user(
        [&] {
            std::string one = places / "allowed/one", other = places / "allowed/other";
            pid_t swapper = fixtures::forked();
            if (swapper == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (swapper == 0)
                for (;;) ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
            Takings all;
            for (unsigned part = 0; part < 100; ++part)
                all.add(in_child([&] { return take_often(plan, secret, 100); }));
            fixtures::kill_one(swapper, SIGKILL);
            ::waitpid(swapper, nullptr, 0);
            return cat(all.taken > 0 ? "some are taken, " : "", all.refused > 0 ? "some are refused, " : "", all.wrong,
                       " wrong of ", all.taken + all.refused);
        },
        std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK(seen.text == "some are taken, some are refused, 0 wrong of 10000");
}

TEST_CASE("policy: a file that belongs to nobody whom the site names is no image", "[kernel][policy]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string file = scene.folder / "copy.sqsh", user = std::to_string(test_uid());
    std::filesystem::copy_file(scene.image, file);
    ::chmod(file.c_str(), 0644);
    if (::geteuid() == 0 && ::chown(file.c_str(), test_uid(), test_gid()) != 0) throw SysError("giving a file away");
    auto outcome_with = [&](const std::string& owners, const std::string& image) {
        plan::Site site = plan::parse_site(cat("[policy]\nimage_owners = \"", owners, "\"\n"), "berth.conf");
        return as_user([&] {
            (void)open_image(plan::parse_reference(image), caller_of_this_process(), site, {});
            return std::string("opened");
        });
    };
    CHECK(outcome_with("root " + user, file).text == "opened");
    CHECK_THAT(outcome_with("daemon", file).error,
               Contains("berth.conf:2: policy.image_owners allows image files of daemon only; this one belongs to"));
    ::chmod(file.c_str(), 0664);
    CHECK_THAT(outcome_with(user, file).error, Contains("nobody but their owner can write to"));
    // An archive is refused before it is read.
    CHECK_THAT(outcome_with("daemon", "docker-archive:" + file).error, Contains("policy.image_owners"));
}

TEST_CASE("policy: an image's folder or file that leads elsewhere once it was judged is not used", "[kernel][policy]") {
    NEED_CONTAINERS();
    Places places;
    plan::Site site = plan::parse_site(places.policy(), "berth.conf");
    for (const char* name : {"allowed/root", "allowed/root/etc", "secret/root", "secret/root/etc"})
        places.directory(name);
    plan::Caller caller = caller_of_this_process();
    places.lead("image", "secret/root");
    auto refused = [&](const std::string& path) {
        return as_user([&] {
            (void)open_image(plan::parse_reference(path), caller, site, {});
            return std::string();
        }).error;
    };
    CHECK_THAT(refused(places / "allowed/image"), Contains("policy.image_paths allows image files below"));
    // Judged by what was opened.
    plan::Reference image = plan::parse_reference(places / "allowed/root");
    Fd secret = sys::open_file(places / "secret/root", O_RDONLY), allowed = sys::open_file(image.path, O_RDONLY);
    CHECK_NOTHROW(check_opened_image(site, image, allowed.get()));
    CHECK_THROWS_WITH(check_opened_image(site, image, secret.get()), Contains("policy.image_paths allows"));
    // Opened, and then another one.
    places.lead("image", "allowed/root");
    Outcome changed = as_user([&] {
        OpenedImage opened = open_image(plan::parse_reference(places / "allowed/image"), caller, site, {});
        places.lead("image", "secret/root");
        StartedContainer container = start_container(bare_plan(), std::move(opened.image), site);
        return run_task(container, [] { return std::string("it runs"); });
    });
    CHECK_THAT(changed.error, Contains("the path leads to another directory than a moment ago"));
}

TEST_CASE("policy: the pipe of MPS, named by the job or a symlink of somebody's, is mounted where the policy allows it",
          "[kernel][policy][hooks]") {
    NEED_CONTAINERS();
    fixtures::FakeHost host;
    fixtures::eight(host, false);
    for (const char* name : {"/allowed/mps", "/secret"}) {
        host.directory(name);
        host.file(cat(name, "/control"), name);
    }
    plan::Site site =
        plan::parse_site(cat("[policy]\nmount_sources = \"", host.path(), "/allowed\"\n"), "berth.conf");
    auto seen = [&](const std::vector<std::string>& job, const std::string& path) {
        fixtures::FakeImage rootfs;
        plan::ContainerEdits made = fixtures::asked(host, rootfs, fixtures::all_gpus, job);
        std::erase_if(made.edits, [&](const plan::Edit& edit) {
            const auto* mount = std::get_if<plan::Mount>(&edit.action);
            return !mount || mount->target != path;
        });
        return in_container(
            [&] {
                plan::Plan plan = bare_plan();
                plan.edits = made.edits;
                plan.sources = plan::judge_sources(site, plan.edits, real_paths(plan::policy_paths(site, plan.edits)));
                return plan;
            }(),
            fill_sample, [&] { return slurp(path + "/control"); });
    };
    auto named = [](const std::string& path) { return std::vector{"CUDA_MPS_PIPE_DIRECTORY=" + path}; };
    CHECK(seen(named("/allowed/mps"), "/allowed/mps").text == "/allowed/mps");
    CHECK_THROWS_WITH(seen(named("/secret"), "/secret"), Contains("(variable CUDA_MPS_PIPE_DIRECTORY): berth.conf:2"));
    host.directory("/tmp/nvidia-mps");
    host.file("/tmp/nvidia-mps/control", "usual");
    CHECK(seen({}, "/tmp/nvidia-mps").text == "usual");
    host.remove("/tmp/nvidia-mps");
    host.link("/tmp/nvidia-mps", "../secret");
    CHECK_THROWS_WITH(seen({}, "/tmp/nvidia-mps"), Contains("it leads to ") && Contains("/secret, and berth.conf:2"));
}

TEST_CASE("policy: berth run compares NCCL_TOPO_FILE, CDI folders and programs of the user, and the home",
          "[kernel][policy][hooks]") {
    NEED_CONTAINERS();
    SiteScene scene;
    Places places;
    places.file("allowed/topo.xml", "<system/>");
    places.file("secret/topo.xml", "<system/>");
    for (const char* name : {"cdi", "hooks"}) places.directory(name);
    auto spec = [&](const char* kind, const std::string& source) {
        return cat(R"({"cdiVersion":"0.5.0","kind":")", kind, R"(/b","devices":[{"name":"x","containerEdits":)",
                   R"({"mounts":[{"hostPath":")", places / source, R"(","containerPath":"/empty"}]}}]})");
    };
    places.file("cdi/good.json", spec("good.com", "allowed/data"));
    places.file("cdi/bad.json", spec("bad.com", "secret"));
    places.file("cdi/site.json", spec("site.com", "secret"));
    places.file("hooks/a", cat("#!/bin/sh\necho '{\"mounts\":[{\"hostPath\":\"", places / "secret",
                               "\",\"containerPath\":\"/empty\"}]}'\n"));
    REQUIRE(::chmod((places / "hooks/a").c_str(), 0755) == 0);
    scene.prepare = [&] {
        // The site's own specification, and an adapter.
        std::filesystem::copy_file(places / "cdi/site.json", "/etc/cdi/site.json");
        for (const char* path : {"/dev", "/sys/class"}) scene.open_up(path);
        std::filesystem::create_directories("/sys/class/infiniband_verbs/uverbs0");
        sys::write_all(sys::open_file("/sys/class/infiniband_verbs/uverbs0/ibdev", O_WRONLY | O_CREAT, 0644).get(),
                       "mlx5_0\n", "ibdev");
        std::filesystem::create_directory("/dev/infiniband");
        std::filesystem::create_symlink("/dev/zero", "/dev/infiniband/uverbs0");
    };
    // The image lies elsewhere than the mounts may.
    std::string site = cat("[policy]\nmount_sources = \"", places / "allowed", "\"\n"),
                open = site + "unlocked = \"hooks devices\"\n";
    auto said = [&](const std::string& text, const std::vector<std::string>& variables) {
        // However little memory this machine lets its users lock.
        std::vector<std::string> all = variables;
        all.push_back("SLURM_RLIMIT_MEMLOCK=18446744073709551615");
        Outcome seen = scene.berth(text, {"run", scene.image, "/bin/inside"}, all);
        return seen.error + seen.text;
    };
    auto check_refused = [&](const std::string& text, const std::string& origin) {
        CHECK_THAT(text, Catch::StartsWith("berth: mounting ") &&
                             Contains("(" + origin + "): /etc/berth/berth.conf:2: ") &&
                             Catch::EndsWith("only\n|125"));
    };
    const std::string rdma = "MELLANOX_VISIBLE_DEVICES=all", ran = "inside uid=0 gid=0 euid=0\n|0";
    CHECK(said(site, {rdma, "NCCL_TOPO_FILE=" + places / "allowed/topo.xml"}) == ran);
    check_refused(said(site, {rdma, "NCCL_TOPO_FILE=" + places / "secret/topo.xml"}), "variable NCCL_TOPO_FILE");
    // Without the site's word a user's folder is not looked at.
    const std::string cdi = "BERTH_DEVICES_CDI_FOLDERS=" + places / "cdi";
    CHECK_THAT(said(site, {cdi, "BERTH_DEVICES=good.com/b=x"}), Contains("devices.cdi_folders is locked unless"));
    CHECK(said(open, {cdi, "BERTH_DEVICES=good.com/b=x"}) == ran);
    check_refused(said(open, {cdi, "BERTH_DEVICES=bad.com/b=x"}), "CDI, by BERTH_DEVICES_CDI_FOLDERS");
    CHECK(said(site, {"BERTH_DEVICES=site.com/b=x"}) == ran);
    const std::string hooks = "BERTH_HOOKS_FOLDER=" + places / "hooks";
    CHECK_THAT(said(site, {hooks}), Contains("hooks.folder is locked unless"));
    check_refused(said(open, {hooks}), "hook a, by BERTH_HOOKS_FOLDER");
    CHECK(said(cat(site, "[hooks]\nfolder = \"", places / "hooks", "\"\n"), {}) == ran);
    check_refused(said(site, {"BERTH_DEFAULTS_MOUNT_HOME=1"}), "variable BERTH_DEFAULTS_MOUNT_HOME");
}

TEST_CASE("policy: a named container whose directories were made symlinks writes to nothing that they lead to",
          "[kernel][policy][named]") {
    NEED_CONTAINERS();
    Places places;
    NamedScene scene;
    auto run = [&] { return scene.outcome("c", [] { return write_to("/name", "of the container"); }); };
    CHECK(run().text == "ok");
    std::string folder = scene.data + "/global_c/";
    for (const std::string name : {"upper", "work"}) {
        CAPTURE(name);
        REQUIRE(::rename((folder + name).c_str(), (folder + "kept").c_str()) == 0);
        REQUIRE(::symlink((places / "secret").c_str(), (folder + name).c_str()) == 0);
        CHECK_THAT(run().error, Contains(cat("global_c: ", name, " is no directory but a link or a file")));
        CHECK(names_in(places / "secret") == "name ");
        CHECK(slurp(places / "secret/name") == "secret");
        REQUIRE(::unlink((folder + name).c_str()) == 0);
        REQUIRE(::rename((folder + "kept").c_str(), (folder + name).c_str()) == 0);
    }
    CHECK(run().text == "ok");
}
