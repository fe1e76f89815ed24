#include "runtime/base/error.hh"
#include "runtime/config/site_file.hh"
#include "runtime/plan/job_environment.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/policy.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

Site site_with(const std::string& policy) { return parse_site("[policy]\n" + policy + "\n", "berth.conf"); }

std::string image_refusal(const std::string& policy, const std::string& image, const RealPaths& real = {}) {
    try {
        check_image(site_with(policy), with_absolute_path(parse_reference(image), "/home/al", "/home/al"), real);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

Caller al() {
    Caller caller;
    caller.uid = caller.gid = 7;
    caller.user = "al";
    caller.group = "staff";
    caller.home = "/home/al";
    caller.cwd = "/scratch/al";
    return caller;
}

/// What a start of `request` by `caller` with `devices` is refused for, where paths lead as `real` says.
std::string start_refusal(const Site& site, const Request& request, const RealPaths& real = {},
                          const HostFacts& host = {}, const Caller& caller = al(), const Job& job = {},
                          const std::vector<ContainerEdits>& devices = {}) {
    try {
        Plan plan = make_plan(request, caller, job, site, host, {}, devices);
        judge_sources(site, plan.edits, real);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

std::string refusal(const std::string& policy, const Request& request, const HostFacts& host = {}) {
    return start_refusal(site_with(policy), request, {}, host);
}

Request mounting(const std::string& text) {
    Request request;
    request.mounts = parse_mounts(text);
    return request;
}

std::string variable_refusal(Site site, const std::string& variable, Authority authority = Authority::user) {
    try {
        apply_environment(site, {variable}, authority);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("policy: registries are compared by whole components, with Docker Hub's name as people write it", "[plan]") {
    const std::string allowed = R"(registries_allowed = "docker.io/library nvcr.io reg.example.com:5000/team/")";
    for (const char* image : {"debian", "docker.io/library/debian:12", "nvcr.io/nvidia/pytorch:24.01",
                              "reg.example.com:5000/team/x", "reg.example.com:5000/team/y/z"})
        CHECK(image_refusal(allowed, image) == "");
    for (const char* image : {"docker.io/evil/debian", "nvcr.io.example.com/x/y", "reg.example.com:5000/teams/x",
                              "reg.example.com/team/x", "dockerd://debian", "podman://debian"})
        CHECK(image_refusal(allowed, image)
                  .find("berth.conf:2: policy.registries_allowed allows images from docker.io/library nvcr.io") !=
              std::string::npos);
    CHECK(image_refusal(R"(registries_allowed = "podman")", "podman://debian") == "");
    CHECK(image_refusal(R"(registries_denied = "nvcr.io/old")", "nvcr.io/old/x")
              .find("policy.registries_denied forbids") != std::string::npos);
    CHECK(image_refusal(R"(registries_denied = "nvcr.io/old")", "nvcr.io/older/x") == "");
    CHECK(image_refusal(R"(registries_allowed = "")", "debian").find("images from none only") != std::string::npos);
    CHECK(image_refusal(R"(registries_denied = "*")", "./x.sqsh") == "");
}

TEST_CASE("policy: a digest where one is required", "[plan]") {
    const std::string digest = "@sha256:" + std::string(64, 'a');
    CHECK(image_refusal("digest_required = true", "debian:12").find("berth.conf:2: policy.digest_required") !=
          std::string::npos);
    CHECK(image_refusal("digest_required = true", "dockerd://debian:12") != "");
    CHECK(image_refusal("digest_required = true", "debian:12" + digest) == "");
    CHECK(image_refusal("digest_required = true", "./x.sqsh") == "");
}

TEST_CASE("policy: image files by whom they belong to, and who may write to them", "[plan]") {
    Site site = site_with(R"(image_owners = "images 4711")");
    Reference image = parse_reference("/shared/x.sqsh");
    auto refusal = [&](const ImageOwner& owner) -> std::string {
        try {
            check_image_owner(site, image, owner);
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    };
    CHECK(refusal({"images", 900, 0100644}) == "");
    CHECK(refusal({"", 4711, 0100600}) == "");
    CHECK(refusal({"somebody", 4711, 0040755}) == "");
    CHECK(refusal({"alice", 1000, 0100600}) ==
          "image /shared/x.sqsh: berth.conf:2: policy.image_owners allows image files of images 4711 only; this one "
          "belongs to alice");
    CHECK_THAT(refusal({"", 471, 0100600}), Catch::EndsWith("this one belongs to 471"));
    for (uint32_t mode : {0100664u, 0100646u, 0040777u})
        CHECK(refusal({"images", 900, mode}) ==
              "image /shared/x.sqsh: berth.conf:2: policy.image_owners allows only image files that nobody but their "
              "owner can write to; its owner, images, can run chmod go-w on this one");
    CHECK_THAT(refusal({"", 4711, 0100664}), Catch::EndsWith("its owner, 4711, can run chmod go-w on this one"));
    CHECK(asks_for_owner(site, image));
    CHECK(asks_for_owner(site, parse_reference("oci-archive:/shared/a.tar:x")));
    CHECK_FALSE(asks_for_owner(site, parse_reference("debian:12")));
    CHECK_FALSE(asks_for_owner(Site{}, image));
    CHECK_FALSE(allows_all_files(site));
    CHECK(allows_all_files(Site{}));
}

TEST_CASE("policy: image files by where they really lie", "[plan]") {
    const std::string policy = R"(image_paths = "/images /lustre/sw/")";
    CHECK(image_refusal(policy, "/images/x.sqsh") == "");
    CHECK(image_refusal(policy, "oci-archive:/lustre/sw/a.tar:x") == "");
    for (const char* image : {"/images2/x.sqsh", "./x.sqsh", "/images/../tmp/x", "oci:/tmp/layout"})
        CHECK(image_refusal(policy, image).find("policy.image_paths allows image files below /images") !=
              std::string::npos);
    CHECK(image_refusal(policy, "/images/x.sqsh", {{"/images/x.sqsh", "/tmp/x.sqsh"}}) != "");
    // The allowed folder may be a link itself.
    CHECK(image_refusal(policy, "/images/x.sqsh", {{"/images/x.sqsh", "/data/1/x.sqsh"}, {"/images", "/data/1"}}) ==
          "");
    CHECK(policy_paths(site_with(policy), parse_reference("/images/x")) ==
          std::vector<std::string>{"/images/x", "/images", "/lustre/sw"});
    CHECK(policy_paths(Site{}, parse_reference("/images/x")).empty());
}

TEST_CASE("policy: sources of mounts", "[plan]") {
    const std::string policy = R"(mount_sources = "/scratch /lustre/data")";
    for (const char* good : {"/scratch/x:/x", "./in:/in", "/lustre/data:/data:ro", "tmpfs:/t", "umount:/tmp"})
        CHECK(refusal(policy, mounting(good)) == "");
    for (const char* bad : {"/scratch2/x:/x", "/lustre:/l", "../../etc:/etc2", "/scratch/../etc:/e"})
        CHECK(refusal(policy, mounting(bad))
                  .find("berth.conf:2: policy.mount_sources allows mounts from /scratch /lustre/data only") !=
              std::string::npos);
    CHECK(start_refusal(site_with(policy), mounting("/scratch/x:/y"), {{"/scratch/x", "/etc"}}) ==
          "mounting /scratch/x at /y (option --container-mounts): it leads to /etc, and berth.conf:2: "
          "policy.mount_sources allows mounts from /scratch /lustre/data only");
    Request home;
    home.mount_home = true;
    CHECK(refusal(policy, home).starts_with("mounting /home/al at /home/al (option --container-mount-home): "));
    // What nobody asked for is the site's own.
    CHECK(refusal(policy, Request{}) == "");
}

TEST_CASE("policy: a squashfs file is judged as other sources of mounts are", "[plan]") {
    const std::string policy = R"(mount_sources = "/scratch")";
    Site site = site_with(policy);
    CHECK(refusal(policy, mounting("/scratch/d.sqsh:/d:squashfs")).empty());
    CHECK(refusal(policy, mounting("/home/al/d.sqsh:/d:squashfs")) ==
          "mounting /home/al/d.sqsh at /d (option --container-mounts): berth.conf:2: policy.mount_sources allows "
          "mounts from /scratch only");
    CHECK(start_refusal(site, mounting("/scratch/d.sqsh:/d:squashfs"), {{"/scratch/d.sqsh", "/etc/d.sqsh"}})
              .find("it leads to /etc/d.sqsh") != std::string::npos);
    site.site.mounts = {"/opt/d.sqsh:/d:squashfs"};
    CHECK(start_refusal(site, {}).empty());
}

TEST_CASE("policy: an edit is judged unless its origin says that the site chose its source", "[plan]") {
    Site site = site_with(R"(mount_sources = "/scratch")");
    auto with = [&](const Origin& origin, const RealPaths& real = {}, const std::string& source = "/tmp/pipe") {
        Mount mount;
        mount.source = source;
        mount.target = "/run/pipe";
        ContainerEdits made;
        made.edits.push_back({mount, origin, "a family that is new"});
        return start_refusal(site, {}, real, {}, al(), {}, {made});
    };
    CHECK(with(Origin::of_site("hook new")) == "");
    // What a family forgets to say is no trust.
    CHECK(with("hook new").starts_with("mounting /tmp/pipe at /run/pipe (hook new): berth.conf:2: "));
    CHECK(with("hook new", {}, "/scratch/pipe") == "");
    // The site's, in a folder where users make symlinks: as long as it is what it says.
    Origin shared = Origin::of_site_in_shared_folder("hook new");
    CHECK(with(shared) == "");
    CHECK(with(shared, {{"/tmp/pipe", "/tmp/pipe"}}) == "");
    CHECK(with(shared, {{"/tmp", "/local/tmp"}, {"/tmp/pipe", "/local/tmp/pipe"}}) == "");
    CHECK(with(shared, {{"/tmp/pipe", "/home/bo"}}) != "");
    CHECK(with(shared, {{"/tmp", "/local/tmp"}, {"/tmp/pipe", "/tmp/pipe"}}) != "");
    CHECK(with(shared, {{"/tmp/pipe", "/scratch/al/pipe"}}) == "");
    // Without a bind nothing of the node is taken.
    CHECK(start_refusal(site, mounting("tmpfs:/t"), {}) == "");
}

TEST_CASE("policy: a plan that was not compared mounts nothing that the job chose", "[plan]") {
    Plan plan = make_plan(mounting("/scratch/x:/x"), al(), {}, site_with(R"(mount_sources = "/scratch")"), {}, {});
    const Edit& edit = plan.edits.back();
    REQUIRE(is_judged(plan.sources, edit));
    CHECK_THROWS_WITH(check_source(plan.sources, std::get<Mount>(edit.action), edit.origin, "/scratch/x"),
                      Catch::Contains("nothing has been compared with policy.mount_sources"));
    CHECK_FALSE(is_judged(make_plan({}, al(), {}, Site{}, {}, {}).sources, edit));
}

TEST_CASE("policy: what is asked of the node has every judged source, its folder, and the allowed folders", "[plan]") {
    Site site = site_with(R"(mount_sources = "/scratch")");
    Plan plan = make_plan(mounting("/scratch/x:/x"), al(), {}, site, {{"/dev/null"}, {}, {}, {}}, {});
    CHECK(policy_paths(site, plan.edits) == std::vector<std::string>{"/scratch/x", "/scratch", "/scratch"});
    CHECK(policy_paths(Site{}, plan.edits).empty());
}

TEST_CASE("policy: a home is judged when the user has it mounted, or has named it", "[plan]") {
    Site site = site_with("mount_sources = \"/scratch\"\n[defaults]\nmount_home = true");
    CHECK(start_refusal(site, {}) == "");
    Caller nameless = al();
    nameless.home_of_environment = true;
    CHECK(start_refusal(site, {}, {}, {}, nameless).starts_with("mounting /home/al at /home/al (variable HOME): "));
    Site off = site_with(R"(mount_sources = "/scratch")");
    apply_environment(off, {"BERTH_DEFAULTS_MOUNT_HOME=1"});
    CHECK(start_refusal(off, {}).starts_with("mounting /home/al at /home/al (variable BERTH_DEFAULTS_MOUNT_HOME): "));
    // plugstack.conf is the site's.
    Site by_site = site_with(R"(mount_sources = "/scratch")");
    apply_environment(by_site, {"BERTH_DEFAULTS_MOUNT_HOME=1"}, Authority::site);
    CHECK(start_refusal(by_site, {}) == "");
}

TEST_CASE("policy: of PMIx's folders those that a variable names are judged, and Slurm's own are not", "[plan]") {
    Site site = site_with(R"(mount_sources = "/scratch")");
    auto with = [&](const std::vector<std::string>& task, const RealPaths& real = {}) {
        Job job;
        job.shared_folders = pmix_folders(task, "/tmp", 7, "5.0");
        return start_refusal(site, {}, real, {}, al(), job);
    };
    CHECK(with({}) == "");
    CHECK(with({"PMIX_SERVER_TMPDIR=/home/bo"}).find("(variable PMIX_SERVER_TMPDIR): ") != std::string::npos);
    CHECK(with({"SLURM_PMIX_TMPDIR=/home/bo"}).find("(variable SLURM_PMIX_TMPDIR): ") != std::string::npos);
    CHECK(with({"SLURM_PMIX_TMPDIR=/scratch/al"}) == "");
    // Anybody can make this name in /tmp.
    CHECK(with({}, {{"/tmp/spmix_appdir_7_5.0", "/home/bo"}})
              .find("spmix_appdir_7_5.0 (slurm): it leads to /home/bo") != std::string::npos);
    CHECK(is_name_of_pmix_server("pmix.5.0", "5.0"));
    CHECK_FALSE(is_name_of_pmix_server("pmix.5.1", "5.0"));
}

TEST_CASE("policy: who may be root and who may write; the others' defaults do neither", "[plan]") {
    Request root, writing;
    root.remap_root = true;
    writing.writable = true;
    CHECK(refusal(R"(remap_root = "bo @admins")", root)
              .find("berth.conf:2: policy.remap_root allows it to bo @admins only, and not to al") !=
          std::string::npos);
    CHECK(refusal(R"(writable = "")", writing).find("policy.writable allows it to none only") != std::string::npos);
    CHECK(refusal(R"(remap_root = "bo al")", root) == "");
    CHECK(refusal(R"(remap_root = "@staff")", root) == "");
    HostFacts host;
    host.groups = {"users", "admins"};
    CHECK(refusal(R"(remap_root = "@admins")", root, host) == "");
    Site site = site_with("remap_root = \"bo\"\nwritable = \"bo\"");
    site.defaults.remap_root = true;
    Plan plan = make_plan({}, al(), {}, site, {}, {});
    CHECK_FALSE(plan.remap_root);
    CHECK_FALSE(plan.writable);
    CHECK(asks_for_groups(site_with(R"(writable = "x @y")")));
    CHECK_FALSE(asks_for_groups(site));
}

TEST_CASE("policy: locked keys are the site's, and policy itself always is", "[plan]") {
    Site site = site_with(R"(locked = "security limits.image_size")");
    CHECK(variable_refusal(site, "BERTH_SECURITY_SECCOMP=off") ==
          "BERTH_SECURITY_SECCOMP: security.seccomp is locked by berth.conf:2 (policy.locked); unset the variable");
    CHECK(variable_refusal(site, "BERTH_LIMITS_IMAGE_SIZE=1T") != "");
    CHECK(variable_refusal(site, "BERTH_LIMITS_STORE_SIZE=1T") == "");
    // To say the same again is no contradiction; what plugstack.conf says is the site's.
    CHECK(variable_refusal(site, "BERTH_SECURITY_SECCOMP=default") == "");
    CHECK(variable_refusal(site, "BERTH_SECURITY_SECCOMP=off", Authority::site) == "");
    for (const char* text : {"BERTH_POLICY_LOCKED=", "BERTH_POLICY_REMAP_ROOT=x", "BERTH_POLICY_REGISTRIES_DENIED=x"})
        CHECK(variable_refusal(site, text).find("by the site's file only") != std::string::npos);
    CHECK_THROWS_WITH(site_with(R"(locked = "securty")"),
                      "berth.conf:2:10: policy.locked: there is no key or section \"securty\"");
    CHECK_THROWS_WITH(site_with(R"(mount_sources = "/a data")"), Catch::Contains("\"data\" is no absolute path"));
}

TEST_CASE("policy: where programs and files for containers come from is locked until the site opens it", "[plan]") {
    const char* closed[] = {"BERTH_HOOKS_FOLDER=/x", "BERTH_HOOKS_TIMEOUT=3", "BERTH_DEVICES_DRIVER_ROOT=/x",
                            "BERTH_DEVICES_DEVICE_ROOT=/x", "BERTH_DEVICES_CDI_FOLDERS=/x"};
    for (const char* variable : closed) {
        INFO(variable);
        CHECK_THAT(variable_refusal(Site{}, variable),
                   Catch::EndsWith(" is locked unless the site's file lists it in policy.unlocked; unset the "
                                   "variable"));
        CHECK(variable_refusal(Site{}, variable, Authority::site) == "");
        CHECK(variable_refusal(site_with(R"(unlocked = "hooks devices")"), variable) == "");
        CHECK(variable_refusal(site_with("unlocked = \"hooks devices\"\nlocked = \"hooks devices\""), variable) != "");
    }
    CHECK(variable_refusal(site_with(R"(unlocked = "hooks.timeout")"), "BERTH_HOOKS_TIMEOUT=3") == "");
    CHECK(variable_refusal(site_with(R"(unlocked = "hooks.timeout")"), "BERTH_HOOKS_FOLDER=/x") != "");
    // To say what holds is no contradiction.
    CHECK(variable_refusal(Site{}, "BERTH_HOOKS_TIMEOUT=10") == "");
    CHECK(variable_refusal(Site{}, "BERTH_DEVICES_RDMA=off") == "");
    CHECK(variable_refusal(Site{}, "BERTH_POLICY_UNLOCKED=hooks").find("by the site's file only") != std::string::npos);
    CHECK_THROWS_WITH(site_with(R"(unlocked = "store.path")"),
                      "berth.conf:2:12: policy.unlocked: there is no key or section \"store.path\" that is locked by "
                      "default");
}

TEST_CASE("policy: a key is the user's when a user's variable has changed it", "[plan]") {
    Site site = site_with(R"(unlocked = "devices")");
    apply_environment(site, {"BERTH_DEVICES_DRIVER_ROOT=/run/driver"}, Authority::site);
    CHECK_FALSE(site.set_by_user("devices.driver_root"));
    apply_environment(site, {"BERTH_DEVICES_DRIVER_ROOT=/run/driver", "BERTH_DEVICES_DEVICE_ROOT=/x"});
    CHECK_FALSE(site.set_by_user("devices.driver_root"));
    CHECK(site.set_by_user("devices.device_root"));
    CHECK_FALSE(site.set_by_user("devices.cdi_folders"));
}
