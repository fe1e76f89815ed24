#include <algorithm>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/plan.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

Caller alice() {
    Caller caller;
    caller.uid = caller.gid = 2001;
    caller.user = caller.group = "alice";
    caller.home = "/home/alice";
    caller.shell = "/bin/bash";
    caller.cwd = "/home/alice/work";
    return caller;
}

HostFacts full_host() { return {host_paths(), {}, {}, {}}; }

/// The mounts onto `target`, in order.
std::vector<Mount> mounts_at(const Plan& plan, const std::string& target) {
    std::vector<Mount> out;
    for (const Edit& edit : plan.edits)
        if (const auto* mount = std::get_if<Mount>(&edit.action); mount && mount->target == target)
            out.push_back(*mount);
    return out;
}

std::vector<std::string> lines_of(const Plan& plan, const std::string& path) {
    std::vector<std::string> out;
    for (const Edit& edit : plan.edits)
        if (const auto* line = std::get_if<AccountLine>(&edit.action); line && line->path == path)
            out.push_back(line->line);
    return out;
}

}  // namespace

TEST_CASE("plan: the default mounts", "[plan]") {
    Plan plan = make_plan({}, alice(), {}, {}, full_host(), {});
    for (const char* target : {"/proc", "/sys", "/dev", "/dev/null", "/dev/pts", "/dev/shm", "/tmp", "/run",
                               "/etc/hosts", "/etc/resolv.conf", "/etc/hostname"}) {
        INFO(target);
        CHECK(mounts_at(plan, target).size() == 1);
    }
    CHECK(mounts_at(plan, "/sys")[0].read_only);
    CHECK(mounts_at(plan, "/etc/hosts")[0].read_only);
    CHECK(mounts_at(plan, "/dev/null")[0].device);
    CHECK(mounts_at(plan, "/tmp")[0].kind == Mount::Kind::tmpfs);
    CHECK(plan.writable);
    CHECK(plan.workdir == "/");
}

TEST_CASE("plan: what the host lacks is left out", "[plan]") {
    Plan plan = make_plan({}, alice(), {}, {}, {{"/dev/null"}, {}, {}, {}}, {});
    CHECK(mounts_at(plan, "/dev/null").size() == 1);
    CHECK(mounts_at(plan, "/dev/mqueue").empty());
    CHECK(mounts_at(plan, "/etc/machine-id").empty());
}

TEST_CASE("plan: identity and accounts, with and without remap-root", "[plan]") {
    Request request;
    Plan plan = make_plan(request, alice(), {}, {}, full_host(), {});
    CHECK(plan.identity.inside_uid == 2001);
    CHECK(lines_of(plan, "/etc/passwd") == std::vector<std::string>{"alice:x:2001:2001::/home/alice:/bin/bash"});
    request.remap_root = true;
    plan = make_plan(request, alice(), {}, {}, full_host(), {});
    CHECK(plan.identity.inside_uid == 0);
    CHECK(plan.identity.host_uid == 2001);
    CHECK(lines_of(plan, "/etc/passwd") == std::vector<std::string>{"root:x:0:0::/root:/bin/sh"});
    CHECK(plan.environment.set[0] == "HOME=/root");
    auto drop_ins = std::count_if(plan.edits.begin(), plan.edits.end(),
                                  [](const Edit& edit) { return std::holds_alternative<DropIn>(edit.action); });
    CHECK(drop_ins == 1);  // apt's sandbox user
}

TEST_CASE("hostile row 61: plan: no passwd entry and no home", "[plan]") {
    Caller caller;
    caller.uid = caller.gid = 77;
    caller.cwd = "/";
    Plan plan = make_plan({}, caller, {}, {}, full_host(), {});
    CHECK(lines_of(plan, "/etc/passwd") == std::vector<std::string>{"user77:x:77:77::/:/bin/sh"});
}

TEST_CASE("plan: account fields cannot add lines or fields", "[plan]") {
    Caller caller = alice();
    caller.gecos = "x:0:0:\nroot::0:0";
    Plan plan = make_plan({}, caller, {}, {}, full_host(), {});
    std::string line = lines_of(plan, "/etc/passwd")[0];
    CHECK(std::count(line.begin(), line.end(), ':') == 6);
    CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("plan: user mounts come after the defaults and resolve against the working directory", "[plan]") {
    Request request;
    request.mounts = parse_mounts("./in:/data:ro,/lustre,tmpfs:/scratch,umount:/etc/localtime");
    Plan plan = make_plan(request, alice(), {}, {}, full_host(), {});
    REQUIRE(mounts_at(plan, "/data").size() == 1);
    CHECK(mounts_at(plan, "/data")[0].source == "/home/alice/work/in");
    CHECK(mounts_at(plan, "/data")[0].read_only);
    CHECK(mounts_at(plan, "/lustre")[0].source == "/lustre");
    CHECK(mounts_at(plan, "/scratch")[0].kind == Mount::Kind::tmpfs);
    CHECK(std::get<Unmount>(plan.edits.back().action).target == "/etc/localtime");
    CHECK(plan.edits.back().origin.text() == "option --container-mounts");
    request.mounts = parse_mounts("/proc/self/root/../proc");
    CHECK_THROWS_AS(make_plan(request, alice(), {}, {}, full_host(), {}), Error);
}

TEST_CASE("plan: flag beats site, site beats default", "[plan]") {
    Site site;
    site.defaults.mount_home = true;
    site.defaults.writable = false;
    Plan plan = make_plan({}, alice(), {}, site, full_host(), {});
    CHECK_FALSE(plan.writable);
    CHECK(mounts_at(plan, "/home/alice").size() == 1);
    Request request;
    request.mount_home = false;
    request.writable = true;
    plan = make_plan(request, alice(), {}, site, full_host(), {});
    CHECK(plan.writable);
    CHECK(mounts_at(plan, "/home/alice").empty());
}

TEST_CASE("plan: working directory of the image, of the option, and none below /proc", "[plan]") {
    ImageConfig image;
    image.working_dir = "srv/app/";
    CHECK(make_plan({}, alice(), {}, {}, full_host(), image).workdir == "/srv/app");
    Request request;
    request.workdir = "/other";
    Plan plan = make_plan(request, alice(), {}, {}, full_host(), image);
    CHECK(plan.workdir == "/other");
    CHECK(plan.workdir_required);
    image.working_dir = "/proc/self/fd/3";
    CHECK_THROWS_AS(make_plan({}, alice(), {}, {}, full_host(), image), Error);
}

TEST_CASE("plan: terminals are the container's own, but for those that Slurm opens", "[plan]") {
    Plan plan = make_plan({}, alice(), {}, {}, full_host(), {});
    CHECK(mounts_at(plan, "/dev/pts").at(0).kind == Mount::Kind::devpts);
    CHECK(mounts_at(plan, "/dev/console").empty());
    Caller caller = alice();
    caller.terminal = "/dev/pts/7";
    plan = make_plan({}, caller, {}, {}, full_host(), {});
    CHECK(mounts_at(plan, "/dev/console").at(0).source == "/dev/pts/7");
    CHECK(mounts_at(plan, "/dev/console").at(0).device);
    Job job;
    job.has_terminal = true;
    plan = make_plan({}, alice(), job, {}, full_host(), {});
    CHECK(mounts_at(plan, "/dev/pts").at(0).kind == Mount::Kind::bind);
}

TEST_CASE("plan: namespaces of its own show their own processes and cgroups", "[plan]") {
    Request request;
    request.unshare.pid = request.unshare.cgroup = true;
    Plan plan = make_plan(request, alice(), {}, {}, full_host(), {});
    CHECK(mounts_at(plan, "/proc").at(0).kind == Mount::Kind::proc);
    CHECK(mounts_at(plan, "/sys/fs/cgroup").at(0).kind == Mount::Kind::cgroup);
    CHECK(mounts_at(plan, "/sys/fs/cgroup").at(0).read_only);
    // The first version of cgroups cannot be shown so.
    CHECK(
        mounts_at(make_plan(request, alice(), {}, {}, {{"/dev/null"}, {}, {}, {}}, {}), "/sys/fs/cgroup").empty());
}

TEST_CASE("plan: the site's namespaces are every container's, but processes only where a step cannot be", "[plan]") {
    Site site;
    site.defaults.unshare = {"ipc", "pid"};
    Job step;
    step.id = "7.0";
    Request named;
    named.name = ContainerName{"dev"};
    CHECK((make_plan({}, alice(), {}, site, full_host(), {}).unshare == OwnNamespaces{.ipc = true, .pid = true}));
    CHECK((make_plan({}, alice(), step, site, full_host(), {}).unshare == OwnNamespaces{.ipc = true}));
    CHECK((make_plan(named, alice(), {}, site, full_host(), {}).unshare == OwnNamespaces{.ipc = true}));
    named.unshare.uts = named.unshare.pid = true;
    CHECK((make_plan(named, alice(), {}, site, full_host(), {}).unshare ==
           OwnNamespaces{.ipc = true, .uts = true, .pid = true}));
    auto origin_of = [](const Plan& plan, const std::string& target) {
        for (const Edit& edit : plan.edits)
            if (const Mount* mount = std::get_if<Mount>(&edit.action); mount && mount->target == target)
                return edit.origin.text();
        return std::string();
    };
    Plan plan = make_plan({}, alice(), {}, site, full_host(), {});
    CHECK(mounts_at(plan, "/dev/shm").at(0).kind == Mount::Kind::tmpfs);
    CHECK(origin_of(plan, "/dev/shm") == "defaults.unshare");
    Request asked;
    asked.unshare.ipc = true;
    CHECK(origin_of(make_plan(asked, alice(), step, site, full_host(), {}), "/dev/shm") == "option --ipc");
}

TEST_CASE("plan: a step's tasks make their cgroup namespaces themselves, and a named container has none of the site's",
          "[plan]") {
    Site site;
    site.defaults.unshare = {"cgroup"};
    Job step;
    step.id = "7.0";
    Request named;
    named.name = ContainerName{"dev"};
    CHECK((make_plan({}, alice(), {}, site, full_host(), {}).unshare == OwnNamespaces{.cgroup = true}));
    CHECK((make_plan({}, alice(), step, site, full_host(), {}).unshare == OwnNamespaces{}));
    CHECK((make_plan(named, alice(), {}, site, full_host(), {}).unshare == OwnNamespaces{}));
}

TEST_CASE("plan: a link of the node's time zone is made in the container, and nothing is mounted", "[plan]") {
    HostFacts host = full_host();
    host.existing.push_back("/etc/localtime");
    CHECK(mounts_at(make_plan({}, alice(), {}, {}, host, {}), "/etc/localtime").size() == 1);
    host.zone = "Europe/Berlin";
    host.zone_file = "TZif2";
    Plan plan = make_plan({}, alice(), {}, {}, host, {});
    CHECK(mounts_at(plan, "/etc/localtime").empty());
    std::string seen;
    for (const Edit& edit : plan.edits) {
        if (auto* link = std::get_if<Symlink>(&edit.action); link && link->path == "/etc/localtime")
            seen += cat("link ", link->target, link->replace ? " in place of another\n" : "\n");
        if (auto* file = std::get_if<DropIn>(&edit.action); file && file->content == "TZif2")
            seen += cat("file ", file->path, "\n");
        if (auto* folder = std::get_if<Directory>(&edit.action); folder && folder->path.starts_with("/usr/"))
            seen += cat("folder ", folder->path, "\n");
    }
    CHECK(seen == "folder /usr/share/zoneinfo/Europe\nfile /usr/share/zoneinfo/Europe/Berlin\n"
                  "link /usr/share/zoneinfo/Europe/Berlin in place of another\n");
}

TEST_CASE("plan: the user's line of /etc/shadow is added where the image has the file, and replaces none", "[plan]") {
    auto shadow_of = [](const Request& request) -> std::optional<AccountLine> {
        for (const Edit& edit : make_plan(request, alice(), {}, {}, full_host(), {}).edits)
            if (auto* line = std::get_if<AccountLine>(&edit.action); line && line->path == "/etc/shadow") return *line;
        return std::nullopt;
    };
    REQUIRE(shadow_of({}));
    CHECK(with_account_line("root:*:1::::::\n", *shadow_of({})) == "root:*:1::::::\nalice:*:::::::\n");
    const std::string known = "alice:$6$x:1::::::\n";
    CHECK(with_account_line(known, *shadow_of({})) == known);
    Request root;
    root.remap_root = true;
    CHECK_FALSE(shadow_of(root));
}

TEST_CASE("plan: what the caller could read or write of the kernel is masked, unless the site says otherwise",
          "[plan]") {
    HostFacts host = full_host();
    host.readable = {"/proc/keys"};
    host.writable = {"/proc/sys"};
    Plan plan = make_plan({}, alice(), {}, {}, host, {});
    CHECK(mounts_at(plan, "/proc/keys").at(0).kind == Mount::Kind::mask);
    CHECK(mounts_at(plan, "/proc/sys").at(0).read_only);
    Site site;
    site.security.mask = false;
    CHECK(mounts_at(make_plan({}, alice(), {}, site, host, {}), "/proc/keys").empty());
}

TEST_CASE("plan: an image's volumes are mounted only in memory, and only when the site wants that", "[plan]") {
    ImageConfig image;
    image.volumes = {"/data", "cache/../x"};
    CHECK(mounts_at(make_plan({}, alice(), {}, {}, full_host(), image), "/data").empty());
    Site site;
    site.mount.volumes = plan::Volumes::tmpfs;
    site.limits.tmpfs_size = 1 << 20;
    Plan plan = make_plan({}, alice(), {}, site, full_host(), image);
    CHECK(mounts_at(plan, "/data").at(0).kind == Mount::Kind::tmpfs);
    CHECK(mounts_at(plan, "/data").at(0).size == 1 << 20);
    CHECK(mounts_at(plan, "/tmp").at(0).size == 1 << 20);
    CHECK(mounts_at(plan, "/x").size() == 1);
    image.volumes = {"/proc"};
    CHECK_THROWS_WITH(make_plan({}, alice(), {}, site, full_host(), image),
                      Catch::Contains("volume /proc") && Catch::Contains("mount.volumes"));
    image.volumes.assign(101, "/v");
    CHECK_THROWS_WITH(make_plan({}, alice(), {}, site, full_host(), image),
                      Catch::Contains("more than the limit of 100"));
}

TEST_CASE("hostile row 62: an image's environment, labels and files choose no mount", "[plan]") {
    ImageConfig image;
    image.env = {"NVIDIA_VISIBLE_DEVICES=all", "BERTH_MOUNTS=/:/host", "ENROOT_MOUNT_HOME=y",
                 "PYXIS_CONTAINER_MOUNTS=/:/x"};
    image.volumes = {"/host"};
    auto targets = [](const Plan& plan) {
        std::vector<std::string> out;
        for (const Edit& edit : plan.edits)
            if (const auto* mount = std::get_if<Mount>(&edit.action))
                out.push_back(mount->source + ">" + mount->target);
        return out;
    };
    CHECK(targets(make_plan({}, alice(), {}, {}, full_host(), image)) ==
          targets(make_plan({}, alice(), {}, {}, full_host(), {})));
}

TEST_CASE("plan: the configuration that slurmd was handed is used where the job has it", "[plan]") {
    Job job;
    CHECK(make_plan({}, alice(), job, {}, full_host(), {}).environment.slurm_conf.empty());
    job.bind_read_only.push_back({"/run/slurm/conf", Origin::of_site("slurm")});
    CHECK(make_plan({}, alice(), job, {}, full_host(), {}).environment.slurm_conf == "/run/slurm/conf/slurm.conf");
}

TEST_CASE("plan: Slurm's commands are found by name wherever they are mounted", "[plan]") {
    auto paths = [](const std::string& commands, const ImageConfig& image, const Request& request = {}) {
        Job job;
        job.bind_read_only.push_back({commands + "/srun", Origin::of_site("slurm")});
        std::string out;
        for (const std::string& text : make_plan(request, alice(), job, {}, full_host(), image).environment.set)
            if (text.starts_with("PATH=")) out += text;
        return out;
    };
    ImageConfig image;
    image.env = {"PATH=/opt/bin:/usr/bin"};
    CHECK(paths("/opt/slurm-24.11/bin", image) == "PATH=/opt/bin:/usr/bin:/opt/slurm-24.11/bin");
    CHECK(paths("/usr/bin", image).empty());
    CHECK(paths("/opt/slurm/bin", {}) ==
          "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin");
    // The job's own is the user's business.
    Request keeps;
    keeps.env = {"PATH"};
    CHECK(paths("/opt/slurm/bin", image, keeps).empty());
}

namespace {

std::vector<std::string> variables_at(const Plan& plan, const std::vector<std::string>& task) {
    std::vector<std::string> out;
    for (const EnvironmentChange& change : environment_changes(plan.environment, task))
        out.push_back(change.name + "=" + change.value.value_or("(none)"));
    return out;
}

Job job_7() {
    Job job;
    job.id = "7.0";
    job.node = "n1";
    return job;
}

}  // namespace

TEST_CASE("plan: the site's mounts come before the user's, which add to them", "[plan][site]") {
    Site site;
    site.site.mounts = {"/lustre:/lustre:ro", "/scratch/%j/%u:/scratch", "tmpfs:/cache:size=1G"};
    Request request;
    request.mounts = parse_mounts("/home/alice/x:/lustre,/data:/data");
    Plan plan = make_plan(request, alice(), job_7(), site, full_host(), {});
    CHECK((mounts_at(plan, "/lustre").size() == 2 && mounts_at(plan, "/lustre")[1].source == "/home/alice/x"));
    CHECK(mounts_at(plan, "/lustre")[0].read_only);
    CHECK(mounts_at(plan, "/scratch").at(0).source == "/scratch/7/alice");
    CHECK(mounts_at(plan, "/cache").size() == 1);
    // Outside of a job there is none with its number.
    CHECK(mounts_at(make_plan({}, alice(), {}, site, full_host(), {}), "/scratch").empty());
    site.site.mounts = {"/x:/dev"};
    CHECK_THROWS_WITH(make_plan({}, alice(), {}, site, full_host(), {}), Catch::Contains("a mount over /dev"));
}

TEST_CASE("hostile: what the site mounts is the site's, unless the user or the job has a hand in its path",
          "[plan][site][policy]") {
    Site site;
    site.policy.mount_sources = {"/allowed"};
    site.site.mounts = {"/lustre:/a", "/tmp/%u:/b", "/net%h:/c"};
    site.site.found_mounts = {{parse_mounts("/lustre:/d")[0], "site.enroot_config, f:1", false},
                              {parse_mounts("/etc:/e")[0], "site.enroot_config, f:2", true}};
    std::map<std::string, Origin::Chooser> who;
    for (const Edit& edit : make_plan({}, alice(), job_7(), site, full_host(), {}).edits)
        if (const auto* mount = std::get_if<Mount>(&edit.action)) who[mount->target] = edit.origin.chooser();
    CHECK(who["/a"] == Origin::Chooser::site);
    CHECK(who["/b"] == Origin::Chooser::site_in_shared_folder);
    CHECK(who["/c"] == Origin::Chooser::job);
    CHECK(who["/d"] == Origin::Chooser::site);
    CHECK(who["/e"] == Origin::Chooser::job);
}

TEST_CASE("plan: the site's variables go before the image's, its defaults behind them", "[plan][site]") {
    Site site;
    site.site.environment = {"A=site", "DIR=/s/%j", "KEPT=site"};
    site.site.environment_defaults = {"B=default", "C=default", "A=no"};
    ImageConfig image;
    image.env = {"A=image", "B=image", "KEPT=image"};
    CHECK(site_variables(site, image.env) ==
          std::vector<std::string>{"C=default", "A=site", "DIR=/s/%j", "KEPT=site"});
    Request request;
    request.env = {"KEPT"};
    Plan plan = make_plan(request, alice(), job_7(), site, full_host(), image);
    const std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    CHECK(variables_at(plan, {"A=job", "KEPT=job", path, "HOME=/home/alice", "SHELL=/bin/bash", "USER=alice",
                              "LOGNAME=alice"}) ==
          std::vector<std::string>{"A=site", "B=image", "C=default", "DIR=/s/7"});
    site.site.environment = {"PATH=/of/site"};
    std::vector<std::string> changes =
        variables_at(make_plan({}, alice(), {}, site, full_host(), {}), {"PATH=/usr/bin"});
    CHECK(std::ranges::count(changes, "PATH=/of/site") == 1);
}

TEST_CASE("plan: a bind that says nothing else sees later mounts of the node, as the site says", "[plan][site]") {
    Request request;
    request.mounts = parse_mounts("/a:/a,/b:/b:private,/c:/c:rshared,tmpfs:/d");
    request.mount_home = true;
    auto propagations = [&](const Site& site) {
        std::string out;
        Plan plan = make_plan(request, alice(), {}, site, full_host(), {});
        for (const char* target : {"/a", "/b", "/c", "/d", "/home/alice", "/sys", "/dev/shm"})
            out += std::to_string(static_cast<int>(mounts_at(plan, target).at(0).propagation));
        return out;
    };
    Site site;
    CHECK(propagations(site) == "1020100");
    site.defaults.mount_propagation = Propagation::isolated;
    CHECK(propagations(site) == "0020000");
}

TEST_CASE("plan: the account's shell, or the image's own where it has not that one", "[plan]") {
    Caller caller = alice();
    caller.shell = "/bin/zsh";
    auto shell = [&](const Request& request, const std::vector<std::string>& task) {
        Plan plan = make_plan(request, caller, {}, {}, full_host(), {});
        std::string line = lines_of(plan, "/etc/passwd").back(), variable;
        for (const EnvironmentChange& change : environment_changes(plan.environment, task))
            if (change.name == "SHELL") variable = change.value.value_or("(none)");
        return line.substr(line.rfind(':') + 1) + " " + variable;
    };
    CHECK(shell({}, {"SHELL=/bin/zsh"}) == "/bin/zsh ");
    caller.shell_of_image = "/bin/bash";
    CHECK(shell({}, {"SHELL=/bin/zsh"}) == "/bin/bash /bin/bash");
    Request kept;
    kept.env = {"SHELL"};
    CHECK(shell(kept, {"SHELL=/bin/zsh"}) == "/bin/bash ");
    Request root;
    root.remap_root = true;
    CHECK(shell(root, {"SHELL=/bin/zsh"}) == "/bin/bash /bin/bash");
}

TEST_CASE("plan: root inside may mount where the site says so, nobody else", "[plan][site]") {
    constexpr uint64_t administration = 1ULL << 21;  // CAP_SYS_ADMIN
    Request root;
    root.remap_root = true;
    Site site;
    Plan files = make_plan(root, alice(), {}, site, full_host(), {});
    CHECK((files.capabilities & administration) == 0);
    CHECK(files.system_calls.allow.empty());
    site.security.root_capabilities = RootCapabilities::mount;
    Plan mounts = make_plan(root, alice(), {}, site, full_host(), {});
    CHECK(mounts.capabilities == (files.capabilities | administration));
    CHECK(std::ranges::count(mounts.system_calls.allow, "mount") == 1);
    Plan user = make_plan({}, alice(), {}, site, full_host(), {});
    CHECK((user.capabilities == 0 && user.system_calls.allow.empty()));
}
