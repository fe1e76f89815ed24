#include "runtime/doctor/doctor.hh"

#include <slurm/slurm.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hooks/nvidia/nvidia.hh"
#include "hooks/rdma/rdma.hh"
#include "runtime/base/text.hh"
#include "runtime/doctor/plugstack.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using Verdict = Finding::Verdict;

namespace {

hooks::DeviceStatus adapters(size_t number, plan::RdmaMode mode = plan::RdmaMode::automatic) {
    hooks::Adapter open;
    open.open = true;
    return hooks::rdma_status(std::vector<hooks::Adapter>(number, open), mode);
}

/// A node on which everything is as it should be.
DoctorFacts healthy() {
    DoctorFacts facts;
    facts.kernel = "6.8.0-45-generic";
    facts.settings.max_user_namespaces = 63000;
    facts.cgroups = "v2";
    facts.memlock = UINT64_MAX;
    facts.open_files = 65536;
    facts.pull_program = "/usr/libexec/berth/berth-pull";
    facts.store = {.path = "/var/lib/berth/1000",
                   .problem = {},
                   .file_system = "xfs",
                   .network = false,
                   .locks = true,
                   .free_bytes = 1ULL << 40,
                   .free_inodes = 1000};
    facts.slurm.version = "23.11.4";
    facts.slurm.plugstack = "/etc/slurm/plugstack.conf.d/berth.conf";
    facts.slurm.plugin = "/usr/lib64/slurm/spank_berth.so";
    facts.slurm.built_for = 0x170b04;
    facts.devices = {hooks::nvidia_status("550.54.15", 8), adapters(8)};
    return facts;
}

Finding finding(const DoctorFacts& facts, const std::string& subject) {
    std::vector<Finding> all = examine(facts);
    auto found = std::find_if(all.begin(), all.end(), [&](const Finding& one) { return one.subject == subject; });
    REQUIRE(found != all.end());
    return *found;
}

}  // namespace

TEST_CASE("doctor: a healthy node has nothing but ok", "[doctor]") {
    for (const Finding& one : examine(healthy())) {
        INFO(one.subject << ": " << one.text);
        CHECK(one.verdict == Verdict::ok);
        CHECK(one.advice.empty());
    }
}

TEST_CASE("doctor: the plugin of Pyxis beside Berth's is a warning", "[doctor]") {
    DoctorFacts facts = healthy();
    facts.slurm.pyxis = "/etc/slurm/plugstack.conf.d/pyxis.conf";
    Finding found = finding(facts, "Slurm");
    CHECK(found.verdict == Verdict::warning);
    CHECK_THAT(found.text, Catch::Contains("/etc/slurm/plugstack.conf.d/pyxis.conf loads the plugin of Pyxis as well"));
    CHECK_FALSE(found.advice.empty());
}

TEST_CASE("doctor: where nodes share, it says at which address and ports, and what is wrong there",
          "[doctor][share]") {
    DoctorFacts facts = healthy();
    facts.sharing.addresses = {{"eth0", "192.0.2.7", 1500}, {"ib0", "10.3.0.7", 2044}};
    for (const Finding& one : examine(facts)) CHECK(one.subject != "sharing");
    facts.sharing.enabled = true;
    Finding plain = finding(facts, "sharing");
    CHECK(plain.verdict == Verdict::ok);
    CHECK_THAT(plain.text, Catch::Contains("by which a node reaches srun") && Catch::Contains("any port"));
    facts.sharing.networks = {"10.3.0.0/16"};
    facts.sharing.ports = {40000, 40009};
    facts.sharing.free_ports = 9;
    Finding chosen = finding(facts, "sharing");
    CHECK(chosen.verdict == Verdict::ok);
    CHECK(chosen.text == "at 10.3.0.7 (ib0, MTU 2044), ports 40000 to 40009, 9 of 10 free");
    facts.sharing.addresses[1].speed = 100'000;
    CHECK_THAT(finding(facts, "sharing").text, Catch::StartsWith("at 10.3.0.7 (ib0, 100000 Mbit/s, MTU 2044), "));
    facts.sharing.free_ports = 0;
    CHECK(finding(facts, "sharing").verdict == Verdict::warning);
    CHECK_THAT(finding(facts, "sharing").advice, Catch::Contains("share.ports"));
    facts.sharing.networks = {"172.16.0.0/12", "fd00::/8"};
    Finding outside = finding(facts, "sharing");
    CHECK(outside.verdict == Verdict::warning);
    CHECK_THAT(outside.text, Catch::Contains("no address of this node is in share.networks (172.16.0.0/12, ...)"));
}

TEST_CASE("doctor: what fails is a failure with its reason and an advice", "[doctor]") {
    using Break = void (*)(DoctorFacts&);
    auto [subject, reason, broken] = GENERATE(table<std::string, std::string, Break>({
        {"user namespaces", "max_user",
          [](DoctorFacts& facts) {
              facts.user_namespace = "creating a user namespace: no; sysctl -w user.max_user_namespaces=15000";
          }},
        {"overlay", "not permitted",
         [](DoctorFacts& facts) {
             facts.overlay = "mounting overlay: Operation not permitted";
         }},
        {"overlay", "a security module",
         [](DoctorFacts& facts) {
             facts.overlay = "mounting the staging area: no; a security module (AppArmor, SELinux) forbids mounts";
         }},
        {"FUSE", "/dev/fuse",
         [](DoctorFacts& facts) {
             facts.fuse = "opening /dev/fuse to serve the image: Permission denied";
         }},
        {"programs", "berth-pull",
         [](DoctorFacts& facts) {
             facts.pull_program_problem = "finding the program berth-pull: no";
         }},
        {"site file", "berth.conf:3:1",
         [](DoctorFacts& facts) {
             facts.site_file_problem = "/etc/berth/berth.conf:3:1: unknown key stroe";
         }},
        {"store", "not writable",
         [](DoctorFacts& facts) {
             facts.store.problem = "opening the store /x: not writable";
         }},
        {"Slurm", "not loaded by /etc/slurm/plugstack.conf",
         [](DoctorFacts& facts) { facts.slurm.plugstack.clear(); facts.slurm.looked = {"/etc/slurm/plugstack.conf"}; }},
        {"Slurm", "berth.conf: spank_berth.so has no setting container_scop",
         [](DoctorFacts& facts) { facts.slurm.line_problem = "spank_berth.so has no setting container_scop"; }},
        {"Slurm", "which is not there", [](DoctorFacts& facts) { facts.slurm.plugin.clear(); }},
        {"Slurm", "built for 22.05.8", [](DoctorFacts& facts) { facts.slurm.built_for = 0x160508; }},
        {"Slurm", "no plugin of Slurm", [](DoctorFacts& facts) { facts.slurm.built_for.reset(); }},
        {"Slurm", "somebody else than root",
         [](DoctorFacts& facts) {
             facts.slurm.plugin_problem = "it can be written by somebody else than root";
         }},
    }));
    DoctorFacts facts = healthy();
    broken(facts);
    Finding found = finding(facts, subject);
    CHECK(found.verdict == Verdict::failure);
    CHECK_THAT(found.text, Catch::Contains(reason));
    CHECK_FALSE(found.advice.empty());
}

TEST_CASE("doctor: the advice is the one that the reason itself gives, and fits it", "[doctor]") {
    using Break = void (*)(DoctorFacts&);
    auto [subject, advice, broken] = GENERATE(table<std::string, std::string, Break>({
        {"user namespaces", "run it outside of the chroot",
         [](DoctorFacts& facts) {
             facts.user_namespace = "creating a user namespace: Operation not permitted; a seccomp filter, a chroot "
                                    "or a security module forbids them to this process";
         }},
        {"site file", "run chown root /etc/berth/berth.conf and chmod 644 /etc/berth/berth.conf",
         [](DoctorFacts& facts) {
             facts.site_file_problem = "reading /etc/berth/berth.conf: it can be written by somebody else than root; "
                                       "run chown root /etc/berth/berth.conf and chmod 644 /etc/berth/berth.conf";
         }},
        {"site file", "change the variable, or unset it",
         [](DoctorFacts& facts) { facts.site_file_problem = "BERTH_STORE_PULL: store.pull must be newer"; }},
        {"site file", "unset the variable",
         [](DoctorFacts& facts) { facts.site_file_problem = "BERTH_A_B: a.b is locked by x; unset the variable"; }},
        {"store", "set store.path to a directory of your own",
         [](DoctorFacts& facts) {
             facts.store.problem = "store /x: belongs to uid 5, not to you (uid 6); set store.path to a directory of "
                                   "your own";
         }},
        {"shared store", "correct store.shared_owner, or let root run chown on it",
         [](DoctorFacts& facts) {
             facts.shared_stores = {{.path = "/x", .problem = "shared store /x: belongs to uid 5; correct "
                                                              "store.shared_owner, or let root run chown on it"}};
         }},
        {"Slurm", "run chown root and chmod go-w on it",
         [](DoctorFacts& facts) {
             facts.slurm.line_problem = "the helper /x must be root's; run chown root and chmod go-w on it";
         }},
        {"events", "write %u into events.log",
         [](DoctorFacts& facts) { facts.event_troubles = {"events.log: /l/a belongs to you, and others' are lost"}; }},
    }));
    DoctorFacts facts = healthy();
    broken(facts);
    Finding found = finding(facts, subject);
    CHECK_THAT(found.advice, Catch::StartsWith(advice));
    CHECK_THAT(found.text, !Catch::Contains(advice));
}

TEST_CASE("doctor: counters that no step has made yet are a note, without an advice", "[doctor]") {
    DoctorFacts facts = healthy();
    facts.counters_to_come = "/var/lib/berth/1000.counters";
    Finding found = finding(facts, "events");
    CHECK(found.verdict == Verdict::note);
    CHECK(found.text == "/var/lib/berth/1000.counters is made by your first step on this node");
    CHECK(found.advice.empty());
}

TEST_CASE("doctor: what failed is coloured on a terminal, and nowhere else", "[doctor]") {
    fixtures::TempFolder place;
    std::string command = cat("env -u NO_COLOR BERTH_STORE_PATH=/proc/self/none ", fixtures::built_program("berth"),
                              " doctor");
    auto plain = fixtures::run_command(command);
    CHECK(plain.status == 1);
    CHECK_THAT(plain.output, Catch::Contains("\nFAILED   store ") && !Catch::Contains("\033["));
    // script(1) runs it on a terminal.
    auto shown = fixtures::run_command(cat("script -qec '", command, "' ", place / "typed", " < /dev/null"));
    CHECK_THAT(shown.output, Catch::Contains("\n\033[1;31mFAILED\033[0m   store "));
    shown = fixtures::run_command(cat("script -qec 'NO_COLOR=1 ", command.substr(command.find("BERTH_")), "' ",
                                      place / "typed", " < /dev/null"));
    CHECK_THAT(shown.output, !Catch::Contains("\033["));
}

TEST_CASE("doctor: what SELinux denies is no setting, no module and no mode", "[doctor]") {
    DoctorFacts facts = healthy();
    facts.overlay = facts.fuse = "mounting: Permission denied; SELinux forbids mounts to user_u:user_r:user_t:s0";
    CHECK_THAT(finding(facts, "overlay").advice, Catch::Contains("SELinux"));
    CHECK_THAT(finding(facts, "FUSE").advice, Catch::Contains("SELinux"));
    facts.user_namespace = "creating one: Permission denied; SELinux forbids them to user_u:user_r:user_t:s0";
    CHECK_THAT(finding(facts, "user namespaces").advice, Catch::Contains("SELinux"));
}

TEST_CASE("doctor: what works less well is a warning, what is merely absent a note", "[doctor]") {
    using Change = void (*)(DoctorFacts&);
    auto [subject, verdict, reason, change] = GENERATE(table<std::string, Verdict, std::string, Change>({
        {"kernel", Verdict::warning, "5.4.0", [](DoctorFacts& facts) { facts.kernel = "5.4.0-generic"; }},
        {"kernel", Verdict::ok, "5.12", [](DoctorFacts& facts) { facts.kernel = "5.12.0"; }},
        {"overlay", Verdict::warning, "made again", [](DoctorFacts& facts) { facts.tmpfs_xattrs = "no"; }},
        {"overlay", Verdict::note, "cannot be tried",
         [](DoctorFacts& facts) {
             facts.overlay = facts.user_namespace = "no";
         }},
        {"user namespaces", Verdict::warning, "at most 20",
         [](DoctorFacts& facts) {
             facts.settings.max_user_namespaces = 20;
         }},
        {"cgroups", Verdict::warning, "none", [](DoctorFacts& facts) { facts.cgroups = "none"; }},
        {"limits", Verdict::warning, "locked memory", [](DoctorFacts& facts) { facts.memlock = 64 << 10; }},
        {"limits", Verdict::ok, "locked memory",
         [](DoctorFacts& facts) {
             facts.memlock = 64 << 10; facts.devices[1] = adapters(0);
         }},
        {"limits", Verdict::warning, "256 open files", [](DoctorFacts& facts) { facts.open_files = 256; }},
        {"store", Verdict::warning, "MB free", [](DoctorFacts& facts) { facts.store.free_bytes = 100 << 20; }},
        {"store", Verdict::warning, "no locks", [](DoctorFacts& facts) { facts.store.locks = false; }},
        {"Slurm", Verdict::warning, "was built for 23.11.3",
         [](DoctorFacts& facts) { facts.slurm.built_for = 0x170b03; }},
        {"events", Verdict::warning, "Permission denied",
         [](DoctorFacts& facts) { facts.event_troubles = {"opening /var/log/berth/a.jsonl: Permission denied"}; }},
        {"store", Verdict::note, "lustre",
         [](DoctorFacts& facts) {
             facts.store.network = true; facts.store.file_system = "lustre";
         }},
        {"Slurm", Verdict::note, "neither", [](DoctorFacts& facts) { facts.slurm = {}; }},
        {"GPUs", Verdict::note, "no NVIDIA driver",
         [](DoctorFacts& facts) { facts.devices[0] = hooks::nvidia_status("", 0); }},
        {"GPUs", Verdict::warning, "no /dev/nvidiaN",
         [](DoctorFacts& facts) { facts.devices[0] = hooks::nvidia_status("550.54.15", 0); }},
        {"GPUs", Verdict::warning, "no driver is loaded",
         [](DoctorFacts& facts) {
             facts.devices[0] = hooks::nvidia_status("", 8);
         }},
        {"RDMA", Verdict::note, "no adapters",
         [](DoctorFacts& facts) { facts.devices[1] = adapters(0); }},
        {"RDMA", Verdict::failure, "8 RDMA adapters, and containers get none (devices.rdma is off)",
         [](DoctorFacts& facts) { facts.devices[1] = adapters(8, plan::RdmaMode::off); }},
        {"RDMA", Verdict::warning, "8 RDMA adapters, for containers that ask by MELLANOX_VISIBLE_DEVICES",
         [](DoctorFacts& facts) { facts.devices[1] = adapters(8, plan::RdmaMode::asked); }},
    }));
    DoctorFacts facts = healthy();
    change(facts);
    Finding found = finding(facts, subject);
    CHECK(found.verdict == verdict);
    CHECK_THAT(found.text, Catch::Contains(reason));
}

TEST_CASE("doctor: where a file server is in the cgroups depends on their version", "[doctor]") {
    DoctorFacts facts = healthy();
    CHECK_THAT(finding(facts, "cgroups").text, Catch::Contains("job_N/step_N/berth, a named"));
    facts.cgroups = "hybrid";
    CHECK_THAT(finding(facts, "cgroups").text, Catch::Contains("job_N/berth_N of the freezer, a named"));
}

TEST_CASE("doctor: the plugin is found through the includes of plugstack.conf, and its release read from it",
          "[doctor]") {
    char place[] = "/tmp/berth-test-doctor-XXXXXX";
    REQUIRE(::mkdtemp(place));
    std::filesystem::path folder = place;
    std::filesystem::create_directory(folder / "plugstack.conf.d");
    std::string plugin =
        std::filesystem::absolute(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../spank_berth.so")
            .lexically_normal();
    std::ofstream(folder / "plugstack.conf")
        << "# required spank_berth.so\ninclude plugstack.conf.d/*\ninclude plugstack.conf\n";
    std::ofstream(folder / "plugstack.conf.d/a.conf") << "optional other.so\n";
    std::ofstream(folder / "plugstack.conf.d/z.conf") << "optional /opt/pyxis-0.24/spank_other.so importer=pyxis\n";
    std::ofstream(folder / "plugstack.conf.d/b.conf") << "required  " << plugin << " helper=/usr/bin/berth\n";
    ::setenv("SLURM_CONF", (folder / "slurm.conf").c_str(), 1);
    SlurmFacts facts = gather_slurm_facts();
    CHECK(facts.plugstack == (folder / "plugstack.conf.d/b.conf").string());
    CHECK(facts.pyxis == "");
    std::ofstream(folder / "plugstack.conf.d/z.conf") << "required /usr/lib/slurm/spank_pyxis.so\n";
    CHECK(gather_slurm_facts().pyxis == (folder / "plugstack.conf.d/z.conf").string());
    std::filesystem::rename(folder / "plugstack.conf", folder / "other.conf");
    std::ofstream(folder / "slurm.conf") << "ClusterName=c\nplugstackconfig=other.conf # here\n";
    CHECK(gather_slurm_facts().plugstack == facts.plugstack);
    ::unsetenv("SLURM_CONF");
    // As glob(3) has it: a * stands for no dot at the start, and for no slash.
    std::string plugstack = folder / "other.conf";
    CHECK(would_be_included(plugstack, folder / "plugstack.conf.d/berth.conf.disabled"));
    CHECK(would_be_included(plugstack, folder / "plugstack.conf"));
    CHECK_FALSE(would_be_included(plugstack, folder / "plugstack.conf.d/.berth.conf.disabled"));
    CHECK_FALSE(would_be_included(plugstack, folder / "plugstack.conf.d/x/berth.conf"));
    CHECK_FALSE(would_be_included(plugstack, folder / "plugstack.conf.d.berth-disabled"));
    std::filesystem::remove_all(folder);
    CHECK(facts.plugin == plugin);
    REQUIRE(facts.built_for);
    CHECK(*facts.built_for == SLURM_VERSION_NUMBER);
}

TEST_CASE("doctor: tabs separate the words of plugstack.conf as blanks do", "[doctor]") {
    fixtures::TempFolder place;
    std::filesystem::create_directory(place / "plugstack.conf.d");
    std::ofstream(place / "plugstack.conf") << "\tinclude\tplugstack.conf.d/*.conf\t# all of them\n";
    std::ofstream(place / "plugstack.conf.d/berth.conf") << "required\tspank_berth.so \t helper=/usr/bin/berth\n";
    std::ofstream(place / "plugstack.conf.d/pyxis.conf") << "\toptional \tspank_pyxis.so\tsbatch_support=0\r\n";
    std::vector<std::string> looked;
    PlugstackLine line = find_plugstack_line(place / "plugstack.conf", plugin_name, looked);
    CHECK(line.file == place / "plugstack.conf.d/berth.conf");
    CHECK(line.plugin == plugin_name);
    CHECK(find_plugstack_line(place / "plugstack.conf", "pyxis", looked).plugin == "spank_pyxis.so");
    CHECK(would_be_included(place / "plugstack.conf", place / "plugstack.conf.d/other.conf"));
}

TEST_CASE("doctor: what slurm.conf includes, and with blanks around its signs, leads to the plugin", "[doctor]") {
    fixtures::TempFolder place;
    for (const char* folder : {"etc", "plugins"}) std::filesystem::create_directory(place / folder);
    std::ofstream(place / "plugins/spank_berth.so");
    std::ofstream(place / "etc/plug.conf") << "required\tspank_berth.so\n";
    std::ofstream(place / "etc/slurm.conf") << "ClusterName=c\nInclude\tsite.conf\n";
    std::ofstream(place / "etc/site.conf") << "\tPlugStackConfig = plug.conf\nPrologFlags\t= X11\n"
                                           << "PluginDir = /nothing:" << place / "plugins" << '\n';
    ::setenv("SLURM_CONF", (place / "etc/slurm.conf").c_str(), 1);
    SlurmFacts facts = gather_slurm_facts();
    ::unsetenv("SLURM_CONF");
    CHECK(facts.plugstack == place / "etc/plug.conf");
    CHECK(facts.plugin == place / "plugins/spank_berth.so");
    REQUIRE(facts.settings.size() == 1);
    CHECK(facts.settings[0].starts_with("PrologFlags=x11: "));
}

TEST_CASE("doctor: a line that loads the plugin with a mistake is a failure, as no srun starts by it", "[doctor]") {
    fixtures::TempFolder place;
    std::string mine = place / "berth";
    std::ofstream(mine) << "mine";
    std::filesystem::permissions(mine, std::filesystem::perms(0777));
    ::setenv("SLURM_CONF", (place / "slurm.conf").c_str(), 1);
    auto problem_of = [&](const std::string& words) {
        std::ofstream(place / "plugstack.conf") << "required spank_berth.so " << words << "\n";
        return gather_slurm_facts().line_problem;
    };
    // A shell is a program of root's everywhere.
    CHECK(problem_of("helper=/bin/sh container_scope=job\tsbatch_support=no # helpr=/x") == "");
    CHECK_THAT(problem_of("helper=/bin/sh container_scop=job"),
               Catch::Contains("spank_berth.so has no setting container_scop;") &&
                   Catch::Contains("did you mean container_scope?"));
    CHECK_THAT(problem_of("helper=/bin/sh\tsbatch_support=perhaps"), Catch::Contains("sbatch_support=perhaps"));
    CHECK_THAT(problem_of("helper=/usr/bin/berthh"),
               Catch::Contains("looking for the helper /usr/bin/berthh (helper= in plugstack.conf): No such file"));
    CHECK_THAT(problem_of("helper=" + mine), Catch::Contains("a file of root's that nobody else can write to"));
    CHECK_THAT(problem_of("helper=/tmp"), Catch::Contains("a file of root's that nobody else can write to"));
    ::unsetenv("SLURM_CONF");
}

TEST_CASE("doctor: Slurm in a folder of its own has its plugins there", "[doctor]") {
    fixtures::TempFolder place;
    std::string prefix = place / "slurm-24.11", path = std::getenv("PATH");
    std::filesystem::create_directories(prefix + "/sbin");
    std::filesystem::create_directories(prefix + "/lib/slurm");
    std::ofstream(prefix + "/sbin/slurmd") << "#!/bin/sh\necho slurm 24.11.5\n";
    std::filesystem::permissions(prefix + "/sbin/slurmd", std::filesystem::perms(0755));
    std::ofstream(prefix + "/lib/slurm/spank_berth.so");
    std::ofstream(place / "plugstack.conf") << "required spank_berth.so\n";
    ::setenv("SLURM_CONF", (place / "slurm.conf").c_str(), 1);
    ::setenv("PATH", (prefix + "/sbin:" + path).c_str(), 1);
    SlurmFacts facts = gather_slurm_facts();
    ::unsetenv("SLURM_CONF");
    ::setenv("PATH", path.c_str(), 1);
    CHECK(facts.version == "24.11.5");
    CHECK(facts.plugin == prefix + "/lib/slurm/spank_berth.so");
}

TEST_CASE("doctor: a shared store is ok, not there, or passed over for a reason", "[doctor][shared]") {
    DoctorFacts facts = healthy();
    facts.shared_stores = {{.path = "/srv/images", .file_system = "nfs", .images = 7}};
    CHECK(finding(facts, "shared store").verdict == Verdict::ok);
    CHECK(finding(facts, "shared store").text == "/srv/images on nfs, 7 images, readable by all");
    facts.shared_stores[0].problem = "shared store /srv/images/layers/x: can be written by others";
    CHECK(finding(facts, "shared store").verdict == Verdict::warning);
    CHECK(finding(facts, "shared store").text == facts.shared_stores[0].problem);
    facts.shared_stores[0] = {.path = "/srv/images", .here = false};
    CHECK(finding(facts, "shared store").verdict == Verdict::note);
}
