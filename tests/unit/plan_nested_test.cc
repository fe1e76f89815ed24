// --container-nested: what a plan has by it, who may ask for it, and who may not.
#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/config/environment_file.hh"
#include "runtime/config/site_file.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/plan_text.hh"
#include "runtime/request/options.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;

namespace {

Caller al() {
    Caller caller;
    caller.uid = caller.gid = 7;
    caller.user = caller.group = "al";
    caller.home = caller.cwd = "/home/al";
    return caller;
}

/// A node where the user may read a file of /proc and one of /sys, and open /dev/fuse.
HostFacts node() {
    HostFacts out{host_paths(), {"/proc/keys", "/sys/firmware"}, {}, {}};
    out.fuse = true;
    return out;
}

Plan plan_of(const GivenOptions& options, const Site& site = {}, const HostFacts& host = node()) {
    return make_plan(request_of(options), al(), {}, site, host, {});
}

bool has_mount(const Plan& plan, const std::string& target) {
    return std::ranges::any_of(plan.edits, [&](const Edit& edit) {
        const auto* mount = std::get_if<Mount>(&edit.action);
        return mount != nullptr && mount->target == target;
    });
}

bool allows(const Plan& plan, const char* call) { return std::ranges::count(plan.system_calls.allow, call) == 1; }

std::string refusal(const std::string& site, const GivenOptions& options = {{"container-nested", ""}}) {
    try {
        plan_of(options, parse_site(site, "berth.conf"));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("nested: calls, /proc without masks and /dev/fuse are the option's, and nobody else's", "[plan]") {
    Plan usual = plan_of({}), nested = plan_of({{"container-nested", ""}});
    CHECK_FALSE(usual.nested);
    CHECK(usual.system_calls.allow.empty());
    for (const char* path : {"/proc/keys", "/sys/firmware"}) CHECK(has_mount(usual, path));
    CHECK_FALSE(has_mount(usual, "/dev/fuse"));
    CHECK_THAT(plan_text(usual), !Contains("nested"));

    CHECK(nested.nested);
    for (const char* call : {"unshare", "clone", "setns", "mount", "umount2", "pivot_root", "fsopen", "sethostname",
                             "capset"})
        CHECK(allows(nested, call));
    for (const char* call : {"bpf", "keyctl", "add_key", "open_by_handle_at", "init_module", "kexec_load"})
        CHECK_FALSE(allows(nested, call));
    CHECK(nested.capabilities == 0);
    CHECK_FALSE(has_mount(nested, "/proc/keys"));
    CHECK(has_mount(nested, "/sys/firmware"));
    CHECK(has_mount(nested, "/dev/fuse"));
    CHECK_THAT(plan_text(nested), Contains("nested     programs may make user namespaces"));

    HostFacts without = node();
    without.fuse = false;
    CHECK_FALSE(has_mount(plan_of({{"container-nested", ""}}, {}, without), "/dev/fuse"));
}

TEST_CASE("nested: what root could change of the node stays covered", "[plan]") {
    HostFacts roots = node();
    roots.writable = {"/proc/sys", "/proc/sysrq-trigger"};
    Plan plan = plan_of({{"container-nested", ""}}, {}, roots);
    for (const char* path : {"/proc/keys", "/proc/sys", "/proc/sysrq-trigger"}) CHECK(has_mount(plan, path));
}

TEST_CASE("nested: the site says never, on request or always", "[plan][site]") {
    CHECK(refusal("") == "");
    CHECK(refusal("[security]\nnested = \"on request\"\n") == "");
    CHECK(refusal("[security]\nnested = \"always\"\n") == "");
    CHECK(refusal("[security]\nnested = \"never\"\n") ==
          "user namespaces in the container: berth.conf:2: security.nested forbids them");
    CHECK(refusal("[security]\nnested = \"never\"\n", {}) == "");
    Site always = parse_site("[security]\nnested = \"always\"\n", "berth.conf");
    CHECK(plan_of({}, always).nested);
    CHECK_FALSE(plan_of({{"no-container-nested", ""}}, always).nested);
    CHECK_THAT(refusal("[security]\nnested = \"sometimes\"\n"), Contains("must be never, on request or always"));
}

TEST_CASE("nested: who has locked the filter or the masks has to allow it", "[plan][site]") {
    for (const char* locked : {"security", "security.seccomp", "security.seccomp_allow", "security.mask"}) {
        INFO(locked);
        std::string policy = std::string("[policy]\nlocked = \"") + locked + "\"\n";
        CHECK_THAT(refusal(policy), Contains("berth.conf:2: policy.locked has security.") &&
                                        Contains("the site allows them by security.nested = \"on request\""));
        CHECK(refusal(policy + "[security]\nnested = \"on request\"\n") == "");
        CHECK(refusal(policy, {}) == "");
    }
    CHECK(refusal("[policy]\nlocked = \"limits security.seccomp_deny\"\n") == "");
}

TEST_CASE("hostile: no variable of a user's, an image or an environment file asks for nested containers",
          "[plan][site]") {
    Site site;
    CHECK_THROWS_WITH(apply_environment(site, {"BERTH_SECURITY_NESTED=always"}), Contains("security.nested is locked"));
    ImageConfig image;
    image.env = {"BERTH_CONTAINER_NESTED=1", "PYXIS_CONTAINER_NESTED=1", "BERTH_SECURITY_SECCOMP=off",
                 "BERTH_SECURITY_NESTED=always", "OTHER=1"};
    Plan plan = make_plan({}, al(), {}, {}, node(), image);
    CHECK_FALSE(plan.nested);
    // An srun in a batch script's container would read them.
    std::vector<EnvironmentChange> changes = environment_changes(plan.environment, {"PATH=/bin", "HOME=/", "SHELL=/x"});
    for (const EnvironmentChange& change : changes) CHECK_THAT(change.name, !Contains("BERTH_") && !Contains("PYXIS_"));
    CHECK(std::ranges::count(changes, EnvironmentChange{"OTHER", "1"}) == 1);
    // What the job has set itself stays.
    changes = environment_changes(plan.environment, {"BERTH_CONTAINER_NESTED=0"});
    for (const EnvironmentChange& change : changes) CHECK(change.name != "BERTH_CONTAINER_NESTED");
    CHECK(parse_environment_file("image = \"debian:12\"\nnested = true\n", "x").unknown ==
          std::vector<std::string>{"nested"});
}
