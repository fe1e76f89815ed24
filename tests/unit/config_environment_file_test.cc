#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/environment_file.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;
using Catch::Matchers::Equals;

namespace {

using Files = std::map<std::string, std::string>;

ResolvedEnvironment resolved(const Files& files, const std::string& name = "a") {
    return resolve_environment(
        name,
        [&](const std::string& wanted) -> FoundEnvironment {
            auto found = files.find(wanted);
            if (found == files.end()) throw Error("there is no " + wanted);
            return {wanted + ".toml", found->second};
        },
        [](const std::string& variable) -> std::optional<std::string> {
            if (variable == "SCRATCH") return "/scratch/alice";
            if (variable == "USER") return "alice";
            if (variable == "EMPTY") return "";
            return std::nullopt;
        },
        "/here");
}

}  // namespace

TEST_CASE("environment file: every key stands for its option", "[environment]") {
    ResolvedEnvironment found = resolved({{"a", R"(
        image = "debian:12"
        workdir = "/w"
        name = "dev"
        writable = false
        entrypoint = true
        mount_home = true
        remap_root = false
        mounts = ["/a:/b:ro", "./here:/there"]
        devices = ["nvidia.com/gpu=0", "/dev/fuse"]
        [env]
        B = "2"
        A = "${PATH}:/x"
    )"}});
    CHECK(found.definition == Definition{.name = "a",
                                         .options = {{"container-image", "debian:12"},
                                                     {"container-workdir", "/w"},
                                                     {"container-name", "dev"},
                                                     {"container-mount-home", ""},
                                                     {"no-container-remap-root", ""},
                                                     {"container-entrypoint", ""},
                                                     {"container-readonly", ""}},
                                         .mounts = {"/a:/b:ro", "./here:/there", "/dev/fuse"},
                                         .variables = {"A=${PATH}:/x", "B=2"},
                                         .devices = {"nvidia.com/gpu=0"},
                                         .replaced = {}});
    CHECK(found.files == std::vector<std::string>{"a.toml"});
    CHECK(found.notes.empty());
}

TEST_CASE("environment file: an EDF of CSCS is read as it is, and what means nothing here is named", "[environment]") {
    ResolvedEnvironment found = resolved({{"a", R"(
        base_environment = ["common"]
        image = "nvcr.io#nvidia/pytorch:24.01-py3"
        mounts = ["/capstor/scratch/cscs/${USER}:/capstor/scratch/cscs/${USER}", "${SCRATCH}:/scratch:ro+private"]
        workdir = "/capstor/scratch/cscs/${USER}"
        entrypoint = false
        writable = true
        perfmon = true

        [env]
        NCCL_DEBUG = "INFO"

        [annotations]
        com.hooks.cxi.enabled = "true"
        [annotations.com.hooks.aws_ofi_nccl]
        enabled = "true"
        variant = "cuda12"
    )"}, {"common", "image = \"\"\nworkdir = \"\"\n"}});
    CHECK(found.definition.options == GivenOptions{{"container-image", "nvcr.io#nvidia/pytorch:24.01-py3"},
                                                   {"container-workdir", "/capstor/scratch/cscs/alice"},
                                                   {"no-container-entrypoint", ""},
                                                   {"container-writable", ""}});
    CHECK(found.definition.mounts == std::vector<std::string>{"/capstor/scratch/cscs/alice:/capstor/scratch/cscs/alice",
                                                              "/scratch/alice:/scratch:ro+private"});
    // For hooks of Enroot's kind.
    CHECK(found.definition.variables == std::vector<std::string>{
                                            "NCCL_DEBUG=INFO",
                                            "OCI_ANNOTATION_com__hooks__aws_ofi_nccl__enabled=true",
                                            "OCI_ANNOTATION_com__hooks__aws_ofi_nccl__variant=cuda12",
                                            "OCI_ANNOTATION_com__hooks__cxi__enabled=true"});
    CHECK(found.notes == std::vector<std::string>{"the environment a.toml: these have no effect here: perfmon"});
}

TEST_CASE("environment file: bases come first, in their order, and later ones count more", "[environment]") {
    Files files = {{"a", "base = [\"b\", \"c\"]\nmounts = [\"/a:/one\"]\n[env]\nA = \"a\"\n"},
                   {"b", "base = \"d\"\nimage = \"b\"\nwritable = false\nmounts = [\"/b:/one\", \"/b:/two\"]\n"
                         "devices = [\"x/y=1\"]\n[env]\nA = \"b\"\nB = \"b\"\n"},
                   {"c", "image = \"c\"\nmounts = [\"/c:/three\"]\ndevices = [\"x/y=1\", \"x/y=2\"]\n"},
                   {"d", "image = \"d\"\nworkdir = \"/d\"\nwritable = true\n"}};
    ResolvedEnvironment found = resolved(files);
    CHECK(found.definition.options == GivenOptions{{"container-image", "c"},
                                                   {"container-workdir", "/d"},
                                                   {"container-readonly", ""}});
    CHECK(found.definition.mounts == std::vector<std::string>{"/b:/two", "/c:/three", "/a:/one"});
    CHECK(found.definition.variables == std::vector<std::string>{"A=a", "B=b"});
    CHECK(found.definition.devices == std::vector<std::string>{"x/y=1", "x/y=2"});
    CHECK(found.files == std::vector<std::string>{"d.toml", "b.toml", "c.toml", "a.toml"});
}

TEST_CASE("environment file: bases in a circle, too deep, too many and missing", "[environment]") {
    CHECK_THROWS_WITH(resolved({{"a", "base = \"b\""}, {"b", "base = \"a\""}}),
                      Equals("the environment a.toml: it is based on itself, by way of b.toml"));
    CHECK_THROWS_WITH(resolved({{"a", "base = \"a\""}}), Contains("it is based on itself, by way of a.toml"));
    CHECK_THROWS_WITH(resolved({{"a", "base = \"b\""}}), Equals("there is no b (the base of a.toml)"));
    Files deep, wide;
    for (char c = 'a'; c < 'k'; ++c)
        deep[std::string(1, c)] = c == 'j' ? "image = \"x\"" : cat("base = \"", static_cast<char>(c + 1), "\"");
    CHECK(resolved(deep).files.size() == 10);
    CHECK_THROWS_WITH(resolved({{"z", "base = \"a\""}, {"a", deep["a"]}, {"b", deep["b"]}, {"c", deep["c"]},
                                {"d", deep["d"]}, {"e", deep["e"]}, {"f", deep["f"]}, {"g", deep["g"]},
                                {"h", deep["h"]}, {"i", deep["i"]}, {"j", deep["j"]}}, "z"),
                      Contains("it is the base of more than 9 others, one over the other"));
    for (char c = 'a'; c < 'h'; ++c) {
        std::string next(1, static_cast<char>(c + 1));
        wide[std::string(1, c)] = cat("base = [\"", next, "\", \"", next, "\"]");
    }
    wide["h"] = "image = \"x\"";
    CHECK_THROWS_WITH(resolved(wide), Contains("it has more than 64 files by its bases"));
}

TEST_CASE("environment file: mistakes name the file, the line and the key", "[environment]") {
    auto mistake = [](const std::string& text) -> std::string {
        try {
            resolved({{"a", text}});
        } catch (const Error& error) {
            return error.what();
        }
        return "none";
    };
    CHECK(mistake("\nimage = 3") == "a.toml:2:9: image must be a text in quotes");
    CHECK(mistake("writable = \"no\"") == "a.toml:1:12: writable must be true or false");
    CHECK(mistake("mounts = \"/a:/b\"") == "a.toml:1:10: mounts must be a list of texts in quotes");
    CHECK(mistake("env = 1") == "a.toml:1:7: env must be a table");
    CHECK(mistake("[env]\nA = 1") == "a.toml:2:5: env.A must be a text in quotes");
    CHECK(mistake("[env]\n\"A-B\" = \"1\"") == "a.toml:2:9: env.A-B is no variable name");
    CHECK(mistake("[env]\nA = \"${B\"") == "a.toml:2:5: env: ${ is left open; $$ stands for a dollar sign");
    CHECK(mistake("image = \"${NONE}\"") == "a.toml:1:9: image: the variable NONE is not set; set it, or write "
                                           "${NONE:-WORD} for the word to take then");
    CHECK(mistake("workdir = \"/proc/1\"").starts_with("a.toml:1:11: workdir: a directory below /proc"));
    CHECK(mistake("mounts = [\"/a:/b,/c:/d\"]") == "a.toml:1:11: mounts: write one mount in each text of the list");
    CHECK(mistake("mounts = [\"/a:/b:sqsh\"]") == "none");
    CHECK(mistake("mounts = [\"/a:/b:sqfs\"]").starts_with("a.toml:1:11: mounts: unknown flag 'sqfs'"));
    CHECK(mistake("devices = [\"fuse\"]").starts_with("a.toml:1:12: devices: 'fuse' is no device"));
    CHECK(mistake("image = \"a\\u0000b\"") == "a.toml:1:9: image holds a NUL byte");
    CHECK(mistake("base = \"../x\"") == "there is no ../x (the base of a.toml)");
    CHECK(mistake("base = \"x/../y\"").starts_with("a.toml:1:8: base: 'x/../y' is no name of an environment"));
    for (const char* text : {"image = ", "= 1", "image = \"\xff\"", "[env", "\xff\xfe", "a\0b"})
        CHECK(mistake(text).starts_with("a.toml:1:"));
    CHECK(mistake(std::string(60'000, '[')).starts_with("a.toml:1:"));
    std::string deep = "x";
    for (int at = 0; at < 30'000; ++at) deep += ".x";
    CHECK(mistake(deep + " = 1") == "a.toml: a key of more than 100 parts");
}

TEST_CASE("environment file: what the successor of CSCS' engine takes", "[environment]") {
    ResolvedEnvironment found = resolved({{"a", R"(
        image = "${NONE:+no}${USER:+debian}${EMPTY+:12}"
        workdir = "work/${NONE-deep}"
        mounts = ["/tmp:/a:ro,private", "/b:/c\\:d:rw,x-create=dir", "${EMPTY-/no}/e:/f"]
        devices = ["/dev/x:/dev/y:rwm", "/dev/fuse:rw", "/dev/z:r", "/dev/a\\:b:/dev/c:ro", "nvidia.com/gpu=all"]
        [annotations]
        com.hooks.x-y.enabled = "true"
        com.hooks.numbers = 3
        org.opencontainers.title = "t"
    )"}});
    CHECK(found.definition.options == GivenOptions{{"container-image", "debian:12"},
                                                   {"container-workdir", "/here/work/deep"}});
    CHECK(found.definition.mounts ==
          std::vector<std::string>{"/tmp:/a:ro+private", "/b:/c\\:d:rw+x-create=dir", "/e:/f", "/dev/x:/dev/y",
                                   "/dev/fuse", "/dev/z:/dev/z:ro", "/dev/a\\:b:/dev/c:ro"});
    CHECK(found.definition.devices == std::vector<std::string>{"nvidia.com/gpu=all"});
    CHECK(found.definition.variables.empty());
    CHECK_THAT(found.notes.at(0), Contains("annotations.com.hooks.numbers") && Contains("annotations.com.hooks.x-y") &&
                                      Contains("annotations.org.opencontainers.title"));
    for (const char* odd : {"${X:}", "${X:w}", "${X=w}", "${-w}", "${X?}"})
        CHECK_THROWS_WITH(resolved({{"a", cat("image = \"", odd, "\"")}}), Contains("names no variable"));
}
