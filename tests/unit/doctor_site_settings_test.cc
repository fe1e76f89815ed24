#include "runtime/doctor/doctor.hh"
#include "runtime/doctor/site_settings.hh"
#include "tests/catch.hh"

using namespace berth;
using Lines = std::vector<std::string>;

namespace {

Lines settings_of(std::string_view text) {
    return settings_that_matter(parse_slurm_conf(text, [](const std::string&) { return std::string(); }));
}

}  // namespace

TEST_CASE("doctor: settings of Slurm's that matter to containers are named as the file has them", "[doctor]") {
    CHECK(settings_of("ClusterName=box\nPrologFlags=Alloc,Contain\n# LaunchParameters=use_interactive_step\n")
              .empty());
    Lines interactive = settings_of("launchparameters=foo,Use_Interactive_Step # as we like it\n");
    REQUIRE(interactive.size() == 1);
    CHECK(interactive[0].starts_with("launchparameters=use_interactive_step: salloc --container-image "));
    Lines several = settings_of("JobContainerType=job_container/tmpfs\nPrologFlags=X11 ConstrainRAMSpace=yes");
    REQUIRE(several.size() == 3);
    CHECK(several[0].starts_with("JobContainerType=job_container/tmpfs: "));
    CHECK(several[1].starts_with("PrologFlags=x11: "));
    CHECK(several[2].starts_with("ConstrainRAMSpace=yes: "));
    CHECK(settings_of("JobContainerType=job_container/tmpfs_own\nConstrainRAMSpace=no\n=\nx\n").empty());
}

TEST_CASE("doctor: words of Slurm's files have blanks or tabs between them", "[doctor]") {
    CHECK(words_of("required\tspank_berth.so  \thelper=/opt/berth\t# here") ==
          Lines{"required", "spank_berth.so", "helper=/opt/berth"});
}

TEST_CASE("doctor: each setting that matters is a line of its own", "[doctor]") {
    DoctorFacts facts;
    facts.slurm.settings = {"A=b: c", "D=e: f"};
    Lines lines;
    for (const Finding& finding : examine(facts))
        if (finding.subject == "Slurm's settings") lines.push_back(finding.text);
    CHECK(lines == facts.slurm.settings);
}

TEST_CASE("doctor: what Slurm's newer releases can do to containers is told", "[doctor]") {
    Lines lines = settings_of(
        "PrologFlags=Contain,RunInJob\nLaunchParameters=test_exec\nNamespaceType=namespace/linux\n");
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].starts_with("PrologFlags=runinjob: a job's containers are ended by its extern step"));
    CHECK(lines[1].starts_with("LaunchParameters=test_exec: srun looks for each program on the submit host"));
    CHECK(lines[2].starts_with("NamespaceType=namespace/linux: "));
}

TEST_CASE("doctor: namespaces of namespace.yaml that stand in containers' way are told", "[doctor]") {
    CHECK(namespaces_that_matter("defaults:\n  base_path: /x\n  clone_ns_flags: [CLONE_NEWNS] # CLONE_NEWPID\n")
              .empty());
    Lines lines = namespaces_that_matter(
        "defaults:\n  clone_ns_flags:\n    - CLONE_NEWUSER\n    - CLONE_NEWPID\nnode_confs:\n  - options:\n");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].starts_with("namespace.yaml has CLONE_NEWPID: a named container ends with the job that started it"));
    CHECK(lines[1].starts_with("namespace.yaml has CLONE_NEWUSER: the steps of other jobs cannot enter a named "));
}

TEST_CASE("doctor: slurm.conf is read as Slurm reads it", "[doctor]") {
    auto no_file = [](const std::string&) { return std::string(); };
    auto value = [&](std::string_view text) { return slurm_value(parse_slurm_conf(text, no_file), "plugstackconfig"); };
    for (const char* text :
         {"PlugStackConfig=/etc/x\n", "\tPlugStackConfig=/etc/x\n", "plugstackconfig = /etc/x\r\n",
          "PlugStackConfig\t=\t/etc/x", "PlugStackConfig=\"/etc/x\"\n", "PlugStackConfig=/etc/x#y\n",
          "PlugStackConfig \\  \n = \\\n/etc/x\n", "PlugStackConfig=/etc/y\nPlugStackConfig=/etc/x\n",
          "ClusterName=\"a b\" PlugStackConfig=/etc/x", "  # PlugStackConfig=/etc/y\nPlugStackConfig=/etc/x"}) {
        INFO(text);
        CHECK(value(text) == "/etc/x");
    }
    CHECK(value("PlugStackConfig=\"/etc/with blank\" # here") == "/etc/with blank");
    CHECK(value("PlugStackConfig=/etc/a\\#b") == "/etc/a#b");
    for (const char* text : {"", "PlugStackConfig=", "PlugStackConfig", "=/etc/x", "#PlugStackConfig=/etc/x",
                             "Other=PlugStackConfig=/etc/x", "\\", "PlugStackConfig=\n/etc/x"}) {
        INFO(text);
        CHECK(value(text) == "");
    }
}

TEST_CASE("doctor: slurm.conf includes files", "[doctor]") {
    auto file = [](const std::string& name) -> std::string {
        if (name == "more-box.conf") return "Include /deep\nPlugStackConfig=/etc/x\n";
        if (name == "/deep") return "PrologFlags = X11\ninclude circle\n";
        if (name == "circle") return "include circle\n";
        return {};
    };
    std::vector<SlurmSetting> read =
        parse_slurm_conf("ClusterName=Box\nINCLUDE\tmore-%c.conf # by us\ninclude nothing\nincluded=1\n", file);
    CHECK(slurm_value(read, "plugstackconfig") == "/etc/x");
    CHECK(slurm_value(read, "included") == "1");
    REQUIRE(settings_that_matter(read).size() == 1);
}
