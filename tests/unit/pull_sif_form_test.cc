#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/images/sif_environment.hh"
#include "runtime/pull/export/sif_form.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::pull;

namespace {

SifOrigin some_origin() {
    SifOrigin out{.process = {},
                  .labels = {{"who", "me"}},
                  .bootstrap = "docker",
                  .from = "localhost/a@sha256:1",
                  .identity = "00112233445566778899aabbccddeeff"};
    out.process.env = {"PATH=/bin:/x y", "A=say \"hi\" to $HOME and `date` \\ ", "EMPTY=", "1bad=x", "LONE"};
    out.process.architecture = "amd64";
    return out;
}

const squash::AddedFile& file_of(const std::vector<squash::AddedFile>& files, const std::string& path) {
    for (const squash::AddedFile& file : files)
        if (file.path == path) return file;
    throw std::runtime_error("no file " + path);
}

/// What the script prints, run with `words`.
std::string output_of(const std::string& script, const std::string& words, const std::string& before = "") {
    fixtures::TempFolder folder;
    sys::write_all(folder.create("script").get(), script, "script");
    return fixtures::run_command(cat(before, " sh ", folder / "script", " ", words)).output;
}

}  // namespace

TEST_CASE("a shell and Berth read the variables of a SIF file as the image has them", "[pull]") {
    std::string script = file_of(sif_files(some_origin()), ".singularity.d/env/10-docker2singularity.sh").content;
    std::string show = script + "printf '[%s]' \"$PATH\" \"$A\" \"$EMPTY\"\n";
    CHECK(output_of(show, "", "unset A EMPTY;") == "[/bin:/x y][say \"hi\" to $HOME and `date` \\ ][]");
    // What the caller has is kept, but for PATH.
    CHECK(output_of(show, "", "A=mine PATH=$PATH:/mine") == "[/bin:/x y][mine][]");
    SifEnvironment read;
    read.read(script);
    CHECK(read.unread == 0);
    CHECK(read.env == std::vector<std::string>{"PATH=/bin:/x y", "A=say \"hi\" to $HOME and `date` \\ ", "EMPTY="});
}

TEST_CASE("what a SIF file runs is the image's entrypoint and command, as docker has them", "[pull]") {
    SifOrigin origin = some_origin();
    auto said = [&](const std::string& words) {
        return output_of(file_of(sif_files(origin), ".singularity.d/runscript").content, words);
    };
    origin.process.entrypoint = {"printf", "[%s]"};
    origin.process.cmd = {"it's", "two words", "$HOME"};
    CHECK(said("") == "[it's][two words][$HOME]");
    CHECK(said("'other words'") == "[other words]");
    origin.process.cmd = {};
    CHECK(said("") == "[]");
    origin.process = {};
    origin.process.cmd = {"echo", "default"};
    CHECK(said("") == "default\n");
    CHECK(said("echo other") == "other\n");
    origin.process = {};
    CHECK(said("echo other") == "other\n");
    CHECK(output_of(file_of(sif_files(origin), ".singularity.d/runscript").content, "", "echo echo a shell |") ==
          "a shell\n");
}

TEST_CASE("labels, settings and time of a SIF file are those of the image's config", "[pull]") {
    SifOrigin origin = some_origin();
    origin.labels.clear();
    read_config_text(origin, R"({"created": "2024-02-03T04:05:06.789+02:00",
                                 "config": {"Cmd": ["x"], "Labels": {"a": "b", "n": 1}}})");
    CHECK(origin.time == 1706925906);
    CHECK(origin.labels == std::vector<std::pair<std::string, std::string>>{{"a", "b"}});
    auto labels = nlohmann::json::parse(file_of(sif_files(origin), ".singularity.d/labels.json").content);
    CHECK(labels["a"] == "b");
    CHECK(labels["org.label-schema.build-date"] == "2024-02-03T02:05:06Z");
    CHECK(labels["org.label-schema.usage.singularity.deffile.from"] == "localhost/a@sha256:1");
    squash::SifForm form = sif_form(origin);
    CHECK(form.definition == "bootstrap: docker\nfrom: localhost/a@sha256:1\n\n");
    REQUIRE(form.texts.size() == 2);
    CHECK(nlohmann::json::parse(form.texts[0].content)["data"]["attributes"]["labels"]["a"] == "b");
    CHECK(form.texts[1].name == "oci-config.json");
    CHECK(nlohmann::json::parse(form.texts[1].content)["Cmd"][0] == "x");
    CHECK(std::string(form.id.data(), 16) ==
          std::string("\x00\x11\x22\x33\x44\x55\x86\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16));
}

TEST_CASE("a config that is none leaves a SIF file without labels", "[pull]") {
    std::string text =
        GENERATE(as<std::string>{}, "", "[]", "{", R"({"config": 1, "created": 2})",
                 R"({"config": {"Labels": []}, "created": "yesterday"})", R"({"created": "1901-01-01T00:00:00Z"})");
    SifOrigin origin = some_origin();
    origin.labels.clear();
    read_config_text(origin, text);
    CHECK(origin.labels.empty());
    CHECK(origin.time == 0);
}
