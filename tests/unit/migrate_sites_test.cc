// `berth migrate` with the settings of DeepOps, HyperPod, Azure CycleCloud, Google's cluster toolkit and Soperator: the
// fixtures are in their form. A file `report` is what comes of each with the keys that berth.conf had on the first day.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/migrate_files.hh"
#include "runtime/config/site_file.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::migrate;
using Catch::Contains;

namespace {

constexpr const char* sites[] = {"deepops", "hyperpod", "azure", "gcp", "soperator"};

std::string fixture(const std::string& site) { return "tests/fixtures/migrate/" + site; }

cli::MigrationSource source(const std::string& site) {
    cli::MigrationSource out{fixture(site) + "/enroot", fixture(site) + "/plugstack.conf"};
    out.registries = fixture(site);
    if (std::filesystem::exists(fixture(site) + "/user")) out.users = {fixture(site) + "/user"};
    return out;
}

/// Without the keys that came later, so that the reports stay as they are.
Answer first_day(const std::string& key, const std::string& value) {
    for (const char* later : {"site.mounts", "site.environment", "registry.auth_path", "defaults.mount_propagation",
                              "mount.upper", "devices.restrict", "defaults.home", "registry.auth_commands"})
        if (key == later) return Answer::no_key;
    if (key == "devices.rdma") return value == "\"auto\"" ? Answer::taken : Answer::refused;
    if (key == "defaults.unshare") return value == "\"ipc\"" ? Answer::taken : Answer::refused;
    return site_reader(key, value);
}

/// With them.
Answer later_day(const std::string& key, const std::string& value) {
    return first_day(key, value) == Answer::no_key ? Answer::taken : first_day(key, value);
}

std::string report_of(const Migration& migration) {
    std::string out;
    for (const Finding& one : migration.findings) out += one.text() + "\n";
    return cat(out, "\n", migration.conf);
}

/// What this program's own berth.conf holds.
plan::Site site_of(const std::string& site) {
    return plan::parse_site(migrated(cli::read_settings(source(site)), site_reader).conf, "berth.conf");
}

/// Lines of `text` without those that do not begin with `start`.
std::string lines_with(const std::string& text, std::string_view start) {
    std::string out;
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with(start)) out += line + "\n";
    return out;
}

fixtures::CommandResult run_berth(const std::string& words) {
    return fixtures::run_command(cat(fixtures::built_program("berth"), " ", words));
}

std::string words_for(const std::string& site) {
    cli::MigrationSource from = source(site);
    std::string out = cat("migrate --enroot ", from.enroot, " --plugstack ", from.plugstack, " --registries ",
                          from.registries);
    for (const std::string& user : from.users) out += cat(" --user ", user);
    return out;
}

/// A folder with an enroot.conf, for what needs no more.
struct Scene {
    fixtures::TempFolder folder;
    Scene() {
        std::filesystem::create_directory(folder / "enroot");
        sys::write_all(folder.create("enroot/enroot.conf").get(), "ENROOT_MOUNT_HOME y\n", "enroot.conf");
        sys::write_all(folder.create("plugstack.conf").get(), "# nothing\n", "plugstack.conf");
    }
    fixtures::CommandResult run(const std::string& more, const std::string& plugstack = "plugstack.conf") const {
        return run_berth(cat("migrate --enroot ", folder / "enroot", " --plugstack ", folder / plugstack,
                             " --registries ", folder.path(), " --output ", folder / "etc/berth.conf", " ", more));
    }
    std::string conf() const { return sys::read_file(folder / "etc/berth.conf"); }
    bool wrote() const { return std::filesystem::exists(folder / "etc"); }
};

}  // namespace

TEST_CASE("migrate: five sites' settings, line by line", "[migrate]") {
    for (const char* site : sites) {
        INFO(site);
        Migration migration = migrated(cli::read_settings(source(site)), first_day);
        CHECK(report_of(migration) == sys::read_file(fixture(site) + "/report"));
    }
}

TEST_CASE("migrate: the settings of DeepOps", "[migrate]") {
    Migration migration = migrated(cli::read_settings(source("deepops")), first_day);
    plan::Site conf = site_of("deepops");
    CHECK(conf.defaults.mount_home);
    CHECK(conf.defaults.writable);
    CHECK(conf.store.compression == plan::LayerCodec::none);
    CHECK(conf.data.path == "/tmp/enroot-data/user-%U/berth-containers");
    CHECK_THAT(migration.conf, Contains("\nrdma = \"auto\"\n"));
    // A variable of the site alone.
    CHECK(migration.count(Fate::unplaced) == 1);
    Migration later = migrated(cli::read_settings(source("deepops")), later_day);
    CHECK(later.count(Fate::unplaced) == 0);
    CHECK_THAT(later.conf, Contains("environment = [\n    \"OMPI_MCA_btl_tcp_if_exclude=lo,docker0,ib0,ib1\",\n]\n"));
}

TEST_CASE("migrate: the settings of HyperPod", "[migrate]") {
    Migration migration = migrated(cli::read_settings(source("hyperpod")), first_day);
    plan::Site conf = site_of("hyperpod");
    CHECK_FALSE(conf.defaults.mount_home);
    CHECK(conf.defaults.writable);
    CHECK(conf.defaults.container_scope == plan::ContainerScope::job);
    CHECK(conf.store.compression == plan::LayerCodec::zstd);
    CHECK(conf.store.compression_level == 3);
    CHECK(conf.store.path == "/opt/dlami/nvme/tmp/enroot/data/user-%U/berth-images");
    // RDMA works as with the whole /dev of the node, and what else was in there is told.
    CHECK_THAT(migration.conf, Contains("\nrdma = \"auto\"\n"));
    std::string report = report_of(migration);
    CHECK_THAT(lines_with(report, "no place"), Contains("ENROOT_RESTRICT_DEV no -> devices.rdma = \"auto\": "));
    CHECK_THAT(lines_with(report, "changes"),
               Contains("97-vulkan-icd.sh: program -> hooks.d/97-vulkan-icd.enroot: it runs before the container "));
    REQUIRE(migration.hooks.size() == 1);
    CHECK(migration.hooks[0].name == "97-vulkan-icd.enroot");
    CHECK(migration.hooks[0].text == sys::read_file(fixture("hyperpod") + "/enroot/hooks.d/97-vulkan-icd.sh"));
    for (const char* secret : {"not-a-token", "not-a-key"}) CHECK(report.find(secret) == std::string::npos);
    CHECK(report.find("get-login-password") == std::string::npos);
    Migration later = migrated(cli::read_settings(source("hyperpod")), later_day);
    CHECK_THAT(later.conf, Contains("restrict = false") && Contains("auth_path = \"%h/enroot\"") &&
                               Contains("upper = \"/opt/dlami/nvme/tmp/enroot/data/user-%U\"") &&
                               Contains("    \"/fsx:/fsx:x-create=dir+rbind+rw+nofail\",\n") &&
                               Contains("auth_commands = true"));
}

TEST_CASE("migrate: the settings of Azure CycleCloud", "[migrate]") {
    Migration migration = migrated(cli::read_settings(source("azure")), first_day);
    plan::Site conf = site_of("azure");
    CHECK_THAT(migration.conf, Contains("\nrdma = \"auto\"\n"));
    CHECK(conf.defaults.mount_home);
    // The one that Enroot does not know either.
    CHECK(migration.count(Fate::unplaced) == 1);
    CHECK_THAT(report_of(migration), Contains("enroot.conf:1: ENROOT_SCRATCH_PATH /mnt/enroot: Enroot 4.1.2 has no "));
}

TEST_CASE("migrate: the settings of Google's cluster toolkit", "[migrate]") {
    Migration migration = migrated(cli::read_settings(source("gcp")), first_day);
    plan::Site conf = site_of("gcp");
    CHECK(conf.data.path == "/mnt/localssd/%U/enroot/data/berth-containers");
    // Enroot's own defaults.
    CHECK_FALSE(conf.defaults.writable);
    CHECK_THAT(migration.conf, Contains("\nrdma = \"auto\"\n"));
    CHECK(migration.count(Fate::unplaced) == 2);
    CHECK(migrated(cli::read_settings(source("gcp")), later_day).count(Fate::unplaced) == 0);
}

TEST_CASE("migrate: the settings of Soperator", "[migrate]") {
    Migration migration = migrated(cli::read_settings(source("soperator")), first_day);
    plan::Site conf = site_of("soperator");
    // A folder of all users gets one for each, and the file is read before the drop-in.
    CHECK(conf.store.path == "/mnt/image-storage/enroot/data/%U/berth-images");
    CHECK(conf.defaults.writable);
    CHECK_FALSE(conf.defaults.entrypoint);
    CHECK(conf.defaults.container_scope == plan::ContainerScope::global);
    std::string report = report_of(migration);
    CHECK_THAT(lines_with(report, "no place"), Contains("task_prolog.fstab:1: "));
    CHECK_THAT(lines_with(report, "changes"),
               Contains("importer=/opt/slurm_scripts/pyxis_caching_importer.sh: not run"));
    CHECK_THAT(report, !Contains("chroot.so") && !Contains("spanknccldebug"));
}

TEST_CASE("migrate: the program says by its exit code whether all has a place, and its file holds", "[migrate]") {
    for (const char* site : sites) {
        fixtures::TempFolder folder;
        std::string output = folder / "etc/berth.conf";
        fixtures::CommandResult result = run_berth(cat(words_for(site), " --output ", output));
        INFO(site << ": " << result.output);
        CHECK(result.status == (lines_with(result.output, "no place").empty() ? 0 : 1));
        CHECK_THAT(result.output, Contains(cat(output, ": written\n")));
        // As this berth reads it.
        CHECK(run_berth("config check " + output).status == 0);
        // And nothing unfinished beside it.
        bool hooks = result.output.find("-> hooks.d/") != std::string::npos;
        CHECK(std::distance(std::filesystem::directory_iterator(folder / "etc"), {}) == (hooks ? 2 : 1));
    }
}

TEST_CASE("migrate: the file is one that all can read, whatever the umask is", "[migrate]") {
    Scene scene;
    mode_t before = ::umask(077);
    fixtures::CommandResult result = scene.run("");
    ::umask(before);
    CHECK(result.status == 0);
    CHECK(plan::parse_site(scene.conf(), "berth.conf").defaults.mount_home);
    struct stat info {};
    REQUIRE(::stat((scene.folder / "etc/berth.conf").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0644);
    REQUIRE(::stat((scene.folder / "etc").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0755);
}

TEST_CASE("migrate: --dry-run prints the file and leaves nothing", "[migrate]") {
    Scene scene;
    fixtures::CommandResult result = scene.run("--dry-run");
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("-> defaults.mount_home = true\n") && Contains("would be:\n") &&
                                  Contains("\n[defaults]\n") && Contains("\nmount_home = true\n"));
    CHECK_FALSE(scene.wrote());
    // With a file that is there as well.
    REQUIRE(scene.run("").status == 0);
    CHECK(scene.run("--dry-run").status == 0);
}

TEST_CASE("migrate: a file that is there stays, without --force", "[migrate]") {
    Scene scene;
    std::filesystem::create_directory(scene.folder / "etc");
    sys::write_all(scene.folder.create("etc/berth.conf").get(), "# mine\n", "berth.conf");
    fixtures::CommandResult result = scene.run("");
    CHECK(result.status == exit_failure);
    CHECK(result.output == cat("berth: writing ", scene.folder / "etc/berth.conf",
                               ": it exists already; read what --dry-run prints, then remove it or use --force\n"));
    CHECK(scene.conf() == "# mine\n");
    CHECK(scene.run("--force").status == 0);
    CHECK(plan::parse_site(scene.conf(), "berth.conf").defaults.mount_home);
}

TEST_CASE("migrate: a hook of the site's is written as a program, and one that is there stays without --force",
          "[migrate]") {
    Scene scene;
    std::filesystem::create_directory(scene.folder / "enroot/hooks.d");
    std::string script = "#!/bin/bash\necho /a /b >> \"${ENROOT_MOUNTS}\"\n",
                path = scene.folder / "enroot/hooks.d/60-site.sh",
                written = scene.folder / "etc/hooks.d/60-site.enroot";
    sys::write_all(scene.folder.create("enroot/hooks.d/60-site.sh").get(), script, path);
    REQUIRE(::chmod(path.c_str(), 0700) == 0);
    fixtures::CommandResult dry = scene.run("--dry-run");
    CHECK(dry.status == 0);
    CHECK_THAT(dry.output, Contains(cat(written, " would be:\n\n", script)));
    CHECK_FALSE(scene.wrote());
    mode_t before = ::umask(077);
    fixtures::CommandResult result = scene.run("");
    ::umask(before);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains(cat(written, ": written\n")));
    CHECK(sys::read_file(written) == script);
    struct stat info {};
    REQUIRE(::stat(written.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0755);
    // The file is new, and the program is not.
    std::filesystem::remove(scene.folder / "etc/berth.conf");
    sys::write_all(sys::open_file(written, O_WRONLY | O_TRUNC).get(), "mine", written);
    CHECK(scene.run("").status == exit_failure);
    CHECK(sys::read_file(written) == "mine");
    CHECK_FALSE(std::filesystem::exists(scene.folder / "etc/berth.conf"));
    CHECK(scene.run("--force").status == 0);
    CHECK(sys::read_file(written) == script);
}

TEST_CASE("migrate: what cannot be read is an error of one line, and nothing is written", "[migrate]") {
    Scene scene;
    auto fails = [&](const std::string& words, const std::string& line,
                     const std::string& plugstack = "plugstack.conf") {
        fixtures::CommandResult result = scene.run(words, plugstack);
        CHECK(result.status == exit_failure);
        CHECK(result.output == cat("berth: ", line, "\n"));
        CHECK_FALSE(scene.wrote());
    };
    fails("--user /nonexistent", "looking for the settings of Enroot in /nonexistent (--user names another folder): No "
                                 "such file or directory");
    fails("", cat("opening ", scene.folder / "none", ": No such file or directory"), "none");
    fixtures::CommandResult without = run_berth("migrate --dry-run --enroot /nonexistent");
    CHECK(without.status == exit_failure);
    CHECK(without.output == "berth: looking for the settings of Enroot in /nonexistent (--enroot names another "
                            "folder): No such file or directory\n");
    // A link to itself: root opens every file.
    std::filesystem::remove(scene.folder / "enroot/enroot.conf");
    std::filesystem::create_symlink("enroot.conf", scene.folder / "enroot/enroot.conf");
    fails("", cat("opening ", scene.folder / "enroot/enroot.conf", ": Too many levels of symbolic links"));
    CHECK(scene.run("--polite").status == exit_failure);
}
