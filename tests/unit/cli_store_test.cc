// What berth(1) says of the commands that look at the store and at what a start would do, by the programs themselves.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/sys.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/store/store.hh"
#include "tests/catch.hh"
#include "tests/fixtures/store_scene.hh"

using namespace berth;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using nlohmann::json;

namespace {

struct Said {
    std::string text;
    int code = 0;
};

/// Three images that share a layer, in a registry and, when they have been pulled, in a store.
struct Scene : fixtures::Scene {
    Scene() : fixtures::Scene(3) { ::setenv("BERTH_STORE_PATH", store.c_str(), 1); }
    ~Scene() { ::unsetenv("BERTH_STORE_PATH"); }

    /// The program berth with these words: what it prints, errors too.
    Said berth(const std::vector<std::string>& words) const {
        std::filesystem::remove(log);
        int code = fixtures::wait_for(start_berth(words));
        return {sys::read_file(log, 1 << 22), code};
    }
    void pull(unsigned images) const {
        for (unsigned i = 0; i < images; ++i) REQUIRE(fixtures::wait_for(start_pull(i)) == 0);
    }
    /// As if image `i` had been used last so many days ago.
    void set_used(unsigned i, int days) const {
        timespec then{std::time(nullptr) - int64_t{days} * 24 * 3600, 0}, times[2] = {then, then};
        std::string hex = digests[i].substr(7);
        for (const std::string& path : {cat(store, "/leases/", hex), cat(store, "/images/", hex, "/manifest.json")})
            REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    }
    /// Which of the three are in the store.
    std::string stored() const {
        std::string out;
        for (unsigned i = 0; i < 3; ++i)
            if (std::filesystem::exists(cat(store, "/images/", digests[i].substr(7)))) out += cat(i);
        return out;
    }
    std::string number(unsigned i) const { return digests[i].substr(7, 12); }
};

std::string removed_line(const char* did, const Scene& scene, unsigned i) {
    return cat(did, " ", scene.number(i), " ", scene.image(i), "\n");
}

}  // namespace

TEST_CASE("berth(1): gc --size removes what was unused for the longest time, until the rest fits", "[cli][store]") {
    Scene scene;
    scene.pull(3);
    scene.set_used(0, 2);
    scene.set_used(1, 4);
    scene.set_used(2, 3);
    CHECK_THAT(scene.berth({"gc"}).text, StartsWith("removed 0 images and 0 layers"));
    CHECK_THAT(scene.berth({"gc", "--size", "1G"}).text, StartsWith("removed 0 images and 0 layers"));
    // 400 kB that all have and 200 kB of each: the first that goes makes room enough for 900K.
    Said dry = scene.berth({"gc", "--size", "900K", "--dry-run"});
    CHECK_THAT(dry.text, StartsWith(removed_line("would remove", scene, 1) + "would remove 1 images and 1 layers: "));
    CHECK(scene.stored() == "012");
    CHECK(dry.code == 0);
    CHECK_THAT(scene.berth({"gc", "--size", "900K"}).text,
               StartsWith(removed_line("removed", scene, 1) + "removed 1 images and 1 layers: "));
    CHECK(scene.stored() == "02");
    // What was used in the last ten minutes stays, whatever the limit.
    scene.set_used(0, 0);
    CHECK_THAT(scene.berth({"gc", "--size", "1"}).text, StartsWith(removed_line("removed", scene, 2)));
    CHECK(scene.stored() == "0");
    Said wrong = scene.berth({"gc", "--size", "much"});
    CHECK_THAT(wrong.text, StartsWith("berth: --size: "));
    CHECK(wrong.code != 0);
}

TEST_CASE("berth(1): the limits of gc are those of the site when none are given", "[cli][store]") {
    Scene scene;
    scene.pull(3);
    for (unsigned i = 0; i < 3; ++i) scene.set_used(i, 2 * static_cast<int>(i) + 2);
    ::setenv("BERTH_LIMITS_STORE_SIZE", "900K", 1);
    CHECK_THAT(scene.berth({"gc", "--size", "1G"}).text, StartsWith("removed 0 images"));
    CHECK_THAT(scene.berth({"gc"}).text, StartsWith(removed_line("removed", scene, 2)));
    ::unsetenv("BERTH_LIMITS_STORE_SIZE");
    ::setenv("BERTH_LIMITS_STORE_AGE", "3", 1);
    CHECK_THAT(scene.berth({"gc", "--age", "9"}).text, StartsWith("removed 0 images"));
    CHECK_THAT(scene.berth({"gc"}).text, StartsWith(removed_line("removed", scene, 1)));
    ::unsetenv("BERTH_LIMITS_STORE_AGE");
    CHECK(scene.stored() == "0");
}

TEST_CASE("berth(1): inspect prints digest, names, size, process settings and layers, for a name and for 12 digits",
          "[cli][store]") {
    Scene scene;
    scene.pull(2);
    Said seen = scene.berth({"inspect", scene.image(0)});
    CHECK(seen.code == 0);
    for (const std::string& line :
         {"digest      " + scene.digests[0] + "\n", "tag         " + scene.image(0) + "\n", std::string("size        "),
          std::string(" of it shared with other images\n"), std::string("command     /bin/tool\n"),
          std::string("env         NOTE=image 0\n"), std::string("env         PATH=/bin\n")})
        CHECK_THAT(seen.text, Contains(line));
    size_t layers = 0;
    for (size_t at = seen.text.find("\nlayer "); at != std::string::npos; at = seen.text.find("\nlayer ", at + 1))
        ++layers;
    CHECK(layers == 2);
    CHECK(scene.berth({"inspect", scene.number(0)}).text == seen.text);
    CHECK(scene.berth({"inspect", scene.digests[0]}).text == seen.text);
    Said few = scene.berth({"inspect", scene.digests[0].substr(7, 11)});
    CHECK(few.code != 0);
    Said absent = scene.berth({"inspect", scene.image(2)});
    CHECK_THAT(absent.text, StartsWith("berth: image ") && Contains("not in the store"));
    CHECK(absent.code != 0);
    CHECK_THAT(absent.text, Contains("each node has a store of its own"));
}

TEST_CASE("berth(1): inspect shows by whose signature an image may run", "[cli][store][trust]") {
    Scene scene;
    scene.pull(1);
    CHECK(scene.berth({"inspect", scene.image(0)}).text.find("signature") == std::string::npos);
    store::SignatureRecord record;
    record.put({scene.image(0), "default", {{"sha256:ab", "/k.pub", scene.image(0)}}, {{"00", "/p"}}});
    store::Store::open(scene.store)
        .put_document(Digest(scene.digests[0]), store::signature_record_file, store::format_signatures(record));
    CHECK_THAT(scene.berth({"inspect", scene.image(0)}).text,
               Contains(cat("signature   sha256:ab (/k.pub) for ", scene.image(0), ", as ", scene.image(0),
                            " by default\n")));
    json seen = json::parse(scene.berth({"inspect", "--json", scene.image(0)}).text)["signatures"];
    CHECK(seen == json::parse(cat(R"([{"image":")", scene.image(0),
                                  R"(","rule":"default","signers":[{"key":"sha256:ab","from":"/k.pub","name":")",
                                  scene.image(0), R"("}]}])")));
}

TEST_CASE("berth(1): inspect --json adds the image's manifest and config", "[cli][store]") {
    Scene scene;
    scene.pull(2);
    json seen = json::parse(scene.berth({"inspect", "--json", scene.image(1)}).text);
    CHECK(seen["digest"] == scene.digests[1]);
    CHECK(seen["tags"] == json({scene.image(1)}));
    CHECK(seen["files"].size() == 2);
    CHECK(seen["in_use"] == false);
    CHECK(seen["shared_bytes"] > 300'000);
    CHECK(seen["bytes"] > seen["shared_bytes"]);
    CHECK(seen["manifest"]["layers"].size() == 2);
    CHECK(seen["manifest"]["layers"][0]["digest"] == scene.base.digest());
    CHECK(seen["config"]["config"]["Env"] == json({"NOTE=image 1", "PATH=/bin"}));
}

TEST_CASE("berth(1): plan pulls what the store lacks, prints each change with whose it is and why, and starts nothing",
          "[cli][store]") {
    Scene scene;
    Said seen = scene.berth({"plan", "--mount", "/usr:/data:ro", "--env", "KEPT", scene.image(0), "/bin/own"});
    CHECK(seen.code == 0);
    CHECK(scene.stored() == "0");
    CHECK_THAT(seen.text, Contains("image      " + scene.digests[0] + "\n") && Contains("command    /bin/own\n") &&
                              Contains("\nWHAT ") && Contains("\nenv        NOTE "));
    std::istringstream lines(seen.text);
    std::string mount, kept;
    for (std::string line; std::getline(lines, line);) {
        if (line.find(" /data ") != std::string::npos) mount = line;
        if (line.find(" KEPT ") != std::string::npos) kept = line;
    }
    CHECK_THAT(mount, StartsWith("bind ") && Contains(" /usr ro,slave ") && Contains(" option --container-mounts ") &&
                          EndsWith(" asked for"));
    CHECK_THAT(kept, StartsWith("env ") && Contains(" option --container-env ") &&
                         EndsWith(" the caller's value, if set"));
    // Nothing of the image was served or run: no lease was taken for longer than the look.
    CHECK(json::parse(scene.berth({"inspect", "--json", scene.image(0)}).text)["in_use"] == false);
}

TEST_CASE("berth(1): plan --json is the same plan as JSON, and --cdi a specification of one device", "[cli][store]") {
    Scene scene;
    json seen = json::parse(scene.berth({"plan", "--json", "--mount", "/usr:/data:ro", scene.image(0)}).text);
    CHECK(seen["image"] == scene.digests[0]);
    CHECK(seen["command"] == json({"/bin/tool"}));
    CHECK(seen["writable"] == true);
    bool found = false;
    for (const json& edit : seen["edits"])
        found |= edit == json{{"what", "bind"}, {"where", "/data"}, {"from", "/usr ro,slave"},
                              {"whose", "option --container-mounts"}, {"why", "asked for"}};
    CHECK(found);
    json cdi = json::parse(scene.berth({"plan", "--cdi", scene.image(0)}).text);
    CHECK(cdi["kind"] == "nvidia.com/gpu");
    REQUIRE(cdi["devices"].size() == 1);
    CHECK(cdi["devices"][0]["name"] == "all");
    Said both = scene.berth({"plan", "--json", "--cdi", scene.image(0)});
    CHECK(both.code != 0);
}

TEST_CASE("berth(1): mirror pulls each image of a list, goes on at failures, and --prune removes other names",
          "[cli][store][shared]") {
    Scene scene;
    std::string list = scene.folder / "images.list";
    auto write = [&](const std::string& text) { std::ofstream(list) << text; };
    write(cat("# of the site\n", scene.image(0), "\n", scene.server->host(), "/a:none\n", scene.image(1),
              "  # two\ndockerd://x\n"));
    Said seen = scene.berth({"mirror", "--prune", list});
    CHECK(seen.code == 125);
    CHECK(scene.stored() == "01");
    for (unsigned i : {0, 1}) CHECK_THAT(seen.text, Contains(cat(scene.image(i), " ", scene.digests[i], "\n")));
    CHECK_THAT(seen.text, Contains("images.list:5: dockerd://x: it is no image of a registry\n"));
    CHECK_THAT(seen.text, Contains("/a:none: "));
    CHECK_THAT(seen.text, Contains("not every line of it can be read; nothing is removed"));

    write(scene.image(1) + "\n" + scene.image(2) + "\n");
    CHECK(scene.berth({"mirror", list}).code == 0);
    CHECK_THAT(scene.berth({"images"}).text, Contains(scene.image(0)));
    seen = scene.berth({"mirror", "--prune", list});
    CHECK(seen.code == 0);
    CHECK_THAT(seen.text, EndsWith(cat("removed the tag ", scene.image(0), "\n")));
    // Its image stays until it is old.
    CHECK(scene.stored() == "012");
    CHECK_THAT(scene.berth({"images"}).text, !Contains(scene.image(0)) && Contains(scene.number(0)));

    write("# nothing\n");
    seen = scene.berth({"mirror", "--prune", list});
    CHECK(seen.code == 125);
    CHECK_THAT(seen.text, Contains("it lists no image; nothing is removed"));
    CHECK_THAT(scene.berth({"images"}).text, Contains(scene.image(1)));
}

TEST_CASE("berth(1): a listing without an image says whose store this is, and how to see another's", "[cli][store]") {
    Scene scene;
    Said empty = scene.berth({"images"});
    CHECK(empty.code == 0);
    CHECK_THAT(empty.text, Contains("none in " + scene.store + "; each node has a store of its own") &&
                               Contains("srun -w NODE berth images\n"));
    CHECK_THAT(scene.berth({"images", "--json"}).text, !Contains("each node"));
    scene.pull(1);
    CHECK_THAT(scene.berth({"images"}).text, !Contains("each node"));
}
