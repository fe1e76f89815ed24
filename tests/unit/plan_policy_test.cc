#include <catch2/catch.hpp>

#include "runtime/base/error.hh"
#include "runtime/config/site_file.hh"
#include "runtime/plan/plan.hh"
#include "runtime/plan/policy.hh"

using namespace berth;
using namespace berth::plan;

namespace {

Site site_with(const std::string& policy) { return parse_site("[policy]\n" + policy + "\n", "berth.conf"); }

std::string image_refusal(const std::string& policy, const std::string& image, const RealPaths& real = {}) {
    try {
        check_image(site_with(policy), with_absolute_path(parse_reference(image), "/home/al"), real);
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

std::string refusal(const std::string& policy, const Request& request, const HostFacts& host = {}) {
    try {
        make_plan(request, al(), {}, site_with(policy), host, {});
    } catch (const Error& error) {
        return error.what();
    }
    return {};
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
    HostFacts linked;
    linked.real_paths = {{"/scratch/x", "/etc"}};
    CHECK(refusal(policy, mounting("/scratch/x:/x"), linked).starts_with("mounting /scratch/x: "));
    Request home;
    home.mount_home = true;
    CHECK(refusal(policy, home).starts_with("mounting /home/al: "));
    // What nobody asked for is the site's own.
    CHECK(refusal(policy, Request{}) == "");
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
