#include "runtime/oci/manifest.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/plan/platform.hh"
#include "tests/catch.hh"

using namespace berth::oci;
using berth::cat;
using Catch::Contains;

namespace {

const std::string oci_manifest = "application/vnd.oci.image.manifest.v1+json";
const std::string oci_index = "application/vnd.oci.image.index.v1+json";
const std::string docker_manifest = "application/vnd.docker.distribution.manifest.v2+json";
const std::string docker_list = "application/vnd.docker.distribution.manifest.list.v2+json";

std::string digest(char c) { return "sha256:" + std::string(64, c); }

std::string descriptor(const std::string& type, const std::string& name, const std::string& more = "") {
    return cat(R"({"mediaType":")", type, R"(","digest":")", name, R"(","size":7)", more, "}");
}

const std::string config = descriptor("application/vnd.oci.image.config.v1+json", digest('c'));
const std::string layer = descriptor("application/vnd.oci.image.layer.v1.tar+gzip", digest('1'));

std::string manifest(const std::string& config_text, const std::string& layers, const std::string& more = "") {
    return cat(R"({"schemaVersion":2,"config":)", config_text, R"(,"layers":[)", layers, "]", more, "}");
}

std::string list(const std::string& entries) { return cat(R"({"schemaVersion":2,"manifests":[)", entries, "]}"); }

std::string for_platform(char name, const std::string& os, const std::string& architecture,
                         const std::string& variant = "") {
    return descriptor(
        oci_manifest, digest(name),
        cat(R"(,"platform":{"os":")", os, R"(","architecture":")", architecture, R"(","variant":")", variant, R"("})"));
}

std::string failure(const std::string& text, const std::string& type = "") {
    try {
        parse_manifest(text, type, "image x");
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

Manifest image(const std::string& text, const std::string& type = "") {
    return std::get<Manifest>(parse_manifest(text, type, "image x"));
}
ImageIndex entries(const std::string& text) {
    return std::get<ImageIndex>(parse_manifest(text, "", "image x"));
}

std::string config_failure(const std::string& text, size_t layers) {
    try {
        parse_config(text, layers, "image x");
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

const Machine amd64{"amd64", {"v1", "v2", "v3"}};

}  // namespace

TEST_CASE("manifests of both makes are read", "[image][manifest]") {
    Manifest oci =
        image(manifest(config, layer + "," + layer, R"(,"annotations":{"a":"b"},"unknown":[1])"), oci_manifest);
    CHECK(oci.config.digest == digest('c'));
    REQUIRE(oci.layers.size() == 2);
    CHECK(oci.layers[0].digest == digest('1'));
    CHECK(oci.layers[0].size == 7);

    std::string docker_config = descriptor("application/vnd.docker.container.image.v1+json", digest('d'));
    std::string docker_layer = descriptor("application/vnd.docker.image.rootfs.diff.tar.gzip", digest('2'));
    std::string text = manifest(docker_config, docker_layer, cat(R"(,"mediaType":")", docker_manifest, "\""));
    CHECK(image(text, docker_manifest + "; charset=utf-8").layers.size() == 1);
    CHECK(image(text, "application/json").layers.size() == 1);
    CHECK(image(manifest(config, "")).layers.empty());
}

TEST_CASE("every form of layer that the specifications know is accepted, others are named", "[image][manifest]") {
    for (const char* type :
         {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+zstd",
          "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
          "application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"})
        CHECK(failure(manifest(config, descriptor(type, digest('1')))).empty());
    CHECK_THAT(failure(manifest(config, descriptor("application/vnd.oci.image.layer.v1.tar+encrypted", digest('1')))),
               Contains("+encrypted"));
    CHECK_THAT(failure(manifest(descriptor("application/vnd.cncf.helm.config.v1+json", digest('c')), layer)),
               Contains("artifact"));
}

TEST_CASE("a Docker manifest may call its config what registries of old made of it", "[image][manifest]") {
    std::string docker_layer = descriptor("application/vnd.docker.image.rootfs.diff.tar.gzip", digest('2'));
    auto without_type = cat(R"({"digest":")", digest('d'), R"(","size":7})");
    std::vector<std::string> configs = {without_type};
    for (const char* type : {"application/octet-stream", "application/json", "text/html", ""})
        configs.push_back(descriptor(type, digest('d')));
    for (const std::string& one : configs) {
        INFO(one);
        std::string untyped = manifest(one, docker_layer);
        std::string typed = manifest(one, docker_layer, cat(R"(,"mediaType":")", docker_manifest, "\""));
        CHECK(failure(untyped, docker_manifest).empty());
        CHECK(failure(typed).empty());
        CHECK(image(typed, docker_manifest).config.digest == digest('d'));
        // What OCI's manifests say counts: there it is an artifact.
        CHECK_FALSE(failure(untyped, oci_manifest).empty());
        CHECK_FALSE(failure(untyped).empty());
    }
    std::string helm = descriptor("application/vnd.cncf.helm.config.v1+json", digest('c'));
    CHECK_THAT(failure(manifest(helm, docker_layer), docker_manifest), Contains("artifact"));
}

TEST_CASE("a manifest need not say its version, nor a config what its layers are", "[image][manifest]") {
    std::string untyped = cat(R"({"config":)", config, R"(,"layers":[)", layer, "]}");
    CHECK(failure(untyped, oci_manifest).empty());
    CHECK(failure(cat(R"({"mediaType":")", oci_manifest, R"(","config":)", config, R"(,"layers":[]})")).empty());
    CHECK_THAT(failure(untyped), Contains("schemaVersion"));
    CHECK_THAT(failure(cat(R"({"schemaVersion":3,"config":)", config, R"(,"layers":[]})"), oci_manifest),
               Contains("schemaVersion"));
    CHECK(config_failure(cat(R"({"rootfs":{"diff_ids":[")", digest('1'), R"("]}})"), 1).empty());
    CHECK_THAT(config_failure(R"({"rootfs":{"type":"","diff_ids":[]}})", 0), Contains("rootfs.type"));
}

TEST_CASE("an entry of an index that nobody chooses may be of a form that came later", "[image][manifest]") {
    std::string sha512 = "sha512:" + std::string(128, 'a');
    std::string platform = R"(,"platform":{"os":"linux","architecture":"arm64"})";
    std::string mine = for_platform('2', "linux", "amd64");
    auto chosen = [](const std::string& text, const Machine& machine) {
        return choose_platform(entries(text), machine, "image x").digest.text();
    };
    const Machine arm64{"arm64", {"v8"}};
    for (const std::string& other : {
             descriptor(oci_manifest, sha512, platform),
             descriptor(oci_manifest, digest('1'), platform + R"(,"data":"!!!!")"),
             cat(R"({"mediaType":")", oci_manifest, R"(","digest":")", digest('1'), "\"", platform, "}"),
             cat(R"({"digest":")", digest('1'), R"(","size":7)", platform, "}"),
         }) {
        INFO(other);
        CHECK(chosen(list(other + "," + mine), amd64) == digest('2'));
        // Whoever needs it hears what is wrong with it, unless another one fits as well.
        CHECK_THROWS_AS(chosen(list(other + "," + mine), arm64), berth::Error);
        CHECK(chosen(list(other + "," + for_platform('3', "linux", "arm64")), arm64) == digest('3'));
    }
    CHECK_THROWS_WITH(chosen(list(descriptor(oci_manifest, sha512, platform)), arm64), Contains(sha512));
    CHECK_THROWS_WITH(chosen(list(descriptor(oci_manifest, sha512)), arm64), Contains(sha512));
    // What is no image is nobody's.
    CHECK(chosen(list(descriptor("application/vnd.example+json", sha512) + "," + mine), amd64) == digest('2'));
    CHECK(chosen(list(cat(R"({"mediaType":")", oci_manifest, R"(","digest":")", digest('1'),
                          R"(","size":7,"platform":"linux/arm64"},)", mine)),
                 amd64) == digest('2'));
    for (const char* bad : {"sha256:abc", "sha512", ":a", "sha512:", "Sha512:a", "a..b:c", "sha512:../x", ""})
        CHECK_THAT(failure(list(descriptor(oci_manifest, bad, platform) + "," + mine)), Contains("64 lower-case"));
}

TEST_CASE("all nodes choose the same of several variants, whatever more their CPUs can do", "[image][manifest]") {
    auto chosen = [](const std::string& text, const Machine& machine) {
        return choose_platform(entries(text), machine, "image x").digest;
    };
    auto variant = [](char name, const char* text) { return for_platform(name, "linux", "amd64", text); };
    const Machine old{"amd64", {"v1"}}, newest{"amd64", {"v1", "v2", "v3", "v4"}}, third{"amd64", {"v3"}};
    std::string all = list(variant('4', "v4") + "," + variant('3', "v3") + "," + variant('0', ""));
    CHECK(chosen(all, newest) == digest('0'));
    CHECK(chosen(all, old) == digest('0'));
    std::string numbered = list(variant('3', "v3") + "," + variant('2', "v2") + "," + variant('1', "v1"));
    CHECK(chosen(numbered, newest) == digest('1'));
    CHECK(chosen(list(variant('3', "v3") + "," + variant('2', "v2")), newest) == digest('2'));
    // Who names a variant gets it.
    CHECK(chosen(all, third) == digest('3'));
    CHECK(chosen(list(variant('0', "") + "," + variant('3', "v3")), third) == digest('3'));
    CHECK(chosen(list(variant('0', "")), third) == digest('0'));
}

TEST_CASE("names of platforms count as containerd reads them", "[image][manifest]") {
    auto chosen = [](const std::string& text) { return choose_platform(entries(text), amd64, "image x").digest; };
    CHECK(chosen(list(for_platform('1', "Linux", "arm64") + "," + for_platform('2', "Linux", "AMD64"))) == digest('2'));
    CHECK(chosen(list(for_platform('1', "linux", "x86_64", "V2"))) == digest('1'));
    // An image that names none in its config has empty ones in an index.
    CHECK(chosen(list(for_platform('1', "", "") + "," + for_platform('2', "windows", "amd64"))) == digest('1'));
}

TEST_CASE("hostile row 24: a manifest over 4 MiB or 1024 layers is refused", "[image][manifest]") {
    CHECK_THAT(failure(manifest(config, layer) + std::string(4 << 20, ' ')), Contains("larger than"));
    std::string layers = layer;
    for (int i = 1; i < 1024; ++i) layers += "," + layer;
    CHECK(image(manifest(config, layers)).layers.size() == 1024);
    CHECK_THAT(failure(manifest(config, layers + "," + layer)), Contains("more than 1024 layers"));
}

TEST_CASE("hostile row 25: nesting over 64 is refused without recursion", "[image][manifest]") {
    CHECK_THAT(failure(std::string(3'000'000, '[')), Contains("nested deeper than 64"));
    auto nested = [](size_t depth) {
        return cat(R"({"schemaVersion":2,"x":)", std::string(depth, '['), std::string(depth, ']'), "}");
    };
    CHECK_THAT(failure(nested(64)), Contains("nested deeper"));
    CHECK_THAT(failure(nested(63)), Contains("neither an image manifest"));
    CHECK(parse_json(R"({"a":"[[[[{{{{\"[["})", "x").is_object());
}

TEST_CASE("hostile row 26: duplicate keys, bad UTF-8, and layers beside manifests are refused", "[image][manifest]") {
    CHECK_THAT(failure(manifest(config, layer, R"(,"layers":[])")), Contains("\"layers\" twice"));
    CHECK_THAT(failure(manifest(config, descriptor("a", digest('1'), cat(R"(,"digest":")", digest('2'), "\"")))),
               Contains("\"digest\" twice"));
    CHECK_THAT(failure(manifest(config, layer, R"(,"\u006cayers":[])")), Contains("\"layers\" twice"));
    CHECK_THAT(failure(manifest(config, layer, ",\"x\":\"\xff\"")), Contains("not valid JSON"));
    CHECK_THAT(failure(manifest(config, layer, ",\"x\":\"\xc0\xaf\"")), Contains("not valid JSON"));
    CHECK_THAT(failure(manifest(config, layer, R"(,"manifests":[])")), Contains("both layers and manifests"));
    CHECK_THAT(failure(manifest(config, layer) + "x"), Contains("not valid JSON"));
    CHECK(failure("\x1b[31m").find(0x1b) == std::string::npos);
    CHECK(parse_json(R"({"a":{"x":1},"b":{"x":1}})", "x").size() == 2);
}

TEST_CASE("hostile row 28: a bad digest in a manifest is refused before it is used", "[image][manifest]") {
    for (const std::string& bad :
         {std::string("sha256:../../x"), "sha256:" + std::string(64, 'A'), std::string("sha256:abc"), std::string("")})
        CHECK_THAT(failure(manifest(config, descriptor("application/vnd.oci.image.layer.v1.tar", bad))),
                   Contains("64 lower-case"));
    CHECK_THAT(failure(list(descriptor(oci_manifest, "sha256:../../x"))), Contains("64 lower-case"));
}

TEST_CASE("hostile row 31: schema 1 is named", "[image][manifest]") {
    CHECK_THAT(failure(R"({"schemaVersion":1,"fsLayers":[]})"), Contains("schema 1"));
    CHECK_THAT(failure(R"({"x":1})", "application/vnd.docker.distribution.manifest.v1+prettyjws"),
               Contains("schema 1"));
}

TEST_CASE("descriptors are checked", "[image][manifest]") {
    auto sized = [&](const std::string& size) {
        return manifest(config, cat(R"({"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":")", digest('1'),
                                    R"(","size":)", size, "}"));
    };
    CHECK(failure(sized("0")).empty());
    for (const char* size : {"-1", "1.5", "1e3", "\"7\"", "null", "9223372036854775808", "99999999999999999999"})
        CHECK_THAT(failure(sized(size)), Contains("not a whole number"));
    CHECK_THAT(failure(manifest(cat(R"({"digest":")", digest('1'), R"(","size":1})"), layer)),
               Contains("no mediaType"));
    CHECK_THAT(failure(R"({"schemaVersion":2,"layers":[]})"), Contains("no config"));
    CHECK_THAT(failure(manifest("[]", layer)), Contains("not an object"));
    CHECK_THAT(failure(manifest(config, "3")), Contains("not an object"));
    CHECK_THAT(failure(R"([])"), Contains("not a JSON object"));
    CHECK_THAT(failure(R"({"schemaVersion":3,"layers":[]})"), Contains("schemaVersion"));
    CHECK_THAT(failure(R"({"schemaVersion":"2","layers":[]})"), Contains("schemaVersion"));
    CHECK(
        image(manifest(descriptor("application/vnd.oci.image.config.v1+json", digest('c'), R"(,"data":"YWJjZGVmZw==")"),
                       layer))
            .config.data == "abcdefg");
    CHECK_THAT(failure(manifest(
                   config, descriptor("application/vnd.oci.image.layer.v1.tar", digest('1'), R"(,"data":"!!!!")"))),
               Contains("base64"));
    CHECK_THAT(failure(manifest(
                   config, descriptor("application/vnd.oci.image.layer.v1.tar", digest('1'), R"(,"data":"YWJj")"))),
               Contains("instead of 7"));
}

TEST_CASE("what a document says it is must agree with how it was sent", "[image][manifest]") {
    std::string typed = manifest(config, layer, cat(R"(,"mediaType":")", oci_manifest, "\""));
    CHECK(failure(typed, oci_manifest).empty());
    CHECK_THAT(failure(typed, docker_manifest), Contains("contradict"));
    CHECK_THAT(failure(typed, oci_index), Contains("contradict"));
    CHECK_THAT(failure(manifest(config, layer), oci_index), Contains("contradict"));
    CHECK_THAT(failure(manifest(config, layer, cat(R"(,"mediaType":")", oci_index, "\""))), Contains("contradict"));
    CHECK_THAT(failure(manifest(config, layer), "text/html"), Contains("text/html"));
}

TEST_CASE("the first entry of an index that this machine can run is chosen", "[image][manifest]") {
    auto chosen = [](const std::string& text) { return choose_platform(entries(text), amd64, "image x").digest; };
    std::string foreign = descriptor("application/vnd.example+json", digest('e'));
    CHECK(chosen(list(foreign + "," + for_platform('1', "linux", "arm64", "v8") + "," +
                      for_platform('2', "linux", "amd64") + "," + for_platform('3', "linux", "amd64"))) == digest('2'));
    CHECK(chosen(list(for_platform('1', "linux", "amd64", "v4") + "," + for_platform('2', "linux", "amd64", "v3"))) ==
          digest('2'));
    CHECK(chosen(list(for_platform('1', "windows", "amd64") + "," + descriptor(docker_list, digest('2')))) ==
          digest('2'));
    CHECK_FALSE(this_machine().architecture.empty());
}

TEST_CASE("a machine may be named as the kernel, Debian or the specification name it", "[image][manifest]") {
    CHECK(machine_named("aarch64") == machine_named("arm64"));
    CHECK(machine_named("ppc64el").architecture == "ppc64le");
    CHECK(machine_named("armhf/v6") == Machine{"arm", {"v6"}});
    CHECK(machine_named("sparc64") == Machine{"sparc64", {""}});
    CHECK(machine_named("") == Machine{"", {""}});
    // This machine runs more than the least variant, which only it knows.
    CHECK(machine_named(berth::plan::machine_architecture) == this_machine());
    std::string text = list(for_platform('1', "linux", "arm", "v6") + "," + for_platform('2', "linux", "arm", "v7") +
                            "," + for_platform('3', "linux", "arm64"));
    CHECK(choose_platform(entries(text), machine_named("armv7l"), "x").digest == digest('2'));
    CHECK(choose_platform(entries(text), machine_named("arm/v6"), "x").digest == digest('1'));
    CHECK(choose_platform(entries(text), machine_named("aarch64"), "x").digest == digest('3'));
}

TEST_CASE("hostile row 30: an image for other platforms only is refused with a list of them", "[image][manifest]") {
    auto refusal = [](const std::string& text) {
        try {
            choose_platform(entries(text), amd64, "image x");
        } catch (const berth::Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    std::string text = list(for_platform('1', "linux", "arm64", "v8") + "," + for_platform('2', "windows", "amd64") +
                            "," + for_platform('3', "unknown", "unknown"));
    CHECK(refusal(text) == "image x: no image for linux/amd64 in it; there are: linux/arm64/v8, windows/amd64");
    CHECK_THAT(refusal(list("")), Contains("there are: none"));
    CHECK_THAT(refusal(list(for_platform('1', "linux", "a\\u001b[31m"))), Contains("\\x1b"));
}

TEST_CASE("an image config is read, null as absent", "[image][manifest]") {
    std::string text = cat(R"({"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[")",
                           digest('1'), R"("]},"config":{
        "Env":["PATH=/bin","A=b=c"],"Entrypoint":["/e"],"Cmd":["x","y"],"WorkingDir":"/w","User":"1000:1",)"
        R"("Volumes":{"/v":{}}}})");
    ImageDescription got = parse_config(text, 1, "image x");
    CHECK(got.diff_ids == std::vector<berth::Digest>{berth::Digest(digest('1'))});
    CHECK(got.config.env == std::vector<std::string>{"PATH=/bin", "A=b=c"});
    CHECK(got.config.entrypoint == std::vector<std::string>{"/e"});
    CHECK(got.config.cmd == std::vector<std::string>{"x", "y"});
    CHECK(got.config.working_dir == "/w");
    CHECK(got.config.user == "1000:1");
    CHECK(got.config.volumes == std::vector<std::string>{"/v"});
    CHECK(got.config.architecture == "amd64");

    std::string empty =
        R"({"rootfs":{"type":"layers","diff_ids":null},"config":{"Env":null,"Entrypoint":null,"Cmd":null,)"
        R"("WorkingDir":null,"Volumes":null}})";
    CHECK(parse_config(empty, 0, "image x").config.env.empty());
    CHECK(parse_config(R"({"rootfs":{"type":"layers"},"config":null})", 0, "image x").config.cmd.empty());
    for (const char* os : {"", "Linux", "LINUX"}) {
        INFO(os);
        std::string text = cat(R"({"os":")", os, R"(","architecture":"","rootfs":{"type":"layers","diff_ids":[]}})");
        CHECK(config_failure(text, 0).empty());
    }
}

TEST_CASE("hostile row 29: a config whose diff_ids do not fit the layers is refused", "[image][manifest]") {
    std::string one = cat(R"({"rootfs":{"type":"layers","diff_ids":[")", digest('1'), R"("]}})");
    CHECK(config_failure(one, 1).empty());
    CHECK_THAT(config_failure(one, 2), Contains("1 diff_ids for 2 layers"));
    CHECK_THAT(config_failure(R"({"rootfs":{"type":"layers","diff_ids":["sha256:../x"]}})", 1),
               Contains("64 lower-case"));
    CHECK_THAT(config_failure(R"({"rootfs":{"type":"x","diff_ids":[]}})", 0), Contains("rootfs.type"));
    CHECK_THAT(config_failure("{}", 0), Contains("rootfs.type"));
}

TEST_CASE("an image config that cannot be meant is refused", "[image][manifest]") {
    std::string rootfs = R"("rootfs":{"type":"layers","diff_ids":[]})";
    CHECK_THAT(config_failure(cat(R"({"os":"windows",)", rootfs, "}"), 0), Contains("windows"));
    CHECK_THAT(config_failure(cat(R"({"config":{"Env":["A=\u0000"]},)", rootfs, "}"), 0), Contains("NUL"));
    CHECK_THAT(config_failure(cat(R"({"config":{"Env":"A=b"},)", rootfs, "}"), 0), Contains("Env"));
    CHECK_THAT(config_failure(cat(R"({"config":{"Cmd":[1]},)", rootfs, "}"), 0), Contains("Cmd"));
    CHECK_THAT(config_failure("[]", 0), Contains("not a JSON object"));
}

TEST_CASE("base64 is read strictly", "[image][manifest]") {
    CHECK(decode_base64("") == "");
    CHECK(decode_base64("Zg==") == "f");
    CHECK(decode_base64("Zm8=") == "fo");
    CHECK(decode_base64("Zm9v") == "foo");
    CHECK_FALSE(decode_base64("Zm9"));
    CHECK_FALSE(decode_base64("Z=9v"));
    CHECK_FALSE(decode_base64("===="));
    CHECK_FALSE(decode_base64("Zm 9v==="));
}
