// Starts that do not wait for the layers of their image: what is waited for comes first, nothing wrong is ever read,
// and all of it comes in the end.
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "runtime/store/collect.hh"
#include "runtime/store/profile.hh"
#include "tests/unit/early_scene.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

TEST_CASE("early: a start needs the index and the sums, and no layer", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start() == Digest(scene.digest));
    CHECK(scene.ranges_of(0) + scene.ranges_of(1) == 0);
    CHECK(scene.conversions() == 0);
    CHECK(!scene.open().has_image(Digest(scene.digest)));
    store::Inventory inventory = store::take_inventory(scene.open());
    REQUIRE(inventory.coming.size() == 1);
    CHECK(inventory.coming[0].digest == Digest(scene.digest));
    CHECK(inventory.coming[0].tags.size() == 1);
    CHECK(inventory.coming[0].here_bytes == 0);
    CHECK(inventory.coming[0].bytes == scene.halves[0].squashfs.size() + scene.halves[1].squashfs.size());
    Reading reading(scene.open(), Digest(scene.digest));
    CHECK(!reading.is_here("a"));
    std::string os, c, a;
    std::jthread reader([&] { a = reading.read("a", 4 << 20, 1000), c = reading.read("c"); });
    reading.wait_for_wishes(1);
    auto unproved = scene.complete();
    reader.join();
    CHECK(a == first_file.substr(4 << 20, 1000));
    CHECK(c == small_file);
    CHECK((reading.read("a") == first_file && reading.read("b") == second_file));
    REQUIRE(unproved);
    CHECK(unproved->layers.size() == 2);
    CHECK(scene.meter.waited() > 0);
    CHECK(scene.meter.waited() < scene.meter.fetched());
    CHECK(scene.meter.fetched() == scene.halves[0].squashfs.size() + scene.halves[1].squashfs.size());
    CHECK(scene.open().unproved().size() == 2);
    CHECK(pull::prove(scene.open(), *unproved).empty());
    inventory = store::take_inventory(scene.open());
    CHECK(inventory.coming[0].here_bytes == inventory.coming[0].bytes);
    // The store's layers are no more of it.
    CHECK(inventory.coming[0].disk_bytes == 0);
    CHECK(inventory.bytes() >= inventory.coming[0].bytes);
    // What came is a layer like any other, and the image follows without another request for it.
    size_t ranges = scene.ranges_of(0) + scene.ranges_of(1);
    CHECK(scene.pull() == scene.digest);
    CHECK(scene.ranges_of(0) + scene.ranges_of(1) == ranges);
    CHECK(reads(scene.open(), scene.digest, "", "a") == first_file);
    CHECK(scene.conversions() == 0);
}

TEST_CASE("early: when the layers are here, the registry is asked for nothing more", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    pull::Afterwards out;
    pull::pull(scene.open(), scene.reference(), scene.early_options(), scene.meter, out);
    REQUIRE(out.early);
    // Manifest, config and signatures.
    CHECK(out.documents.size() == 3);
    pull::Options options = scene.early_options();
    REQUIRE(pull::complete_early(scene.open(), scene.reference(), *out.early, options, scene.meter).unproved);
    scene.fault = [](const test::HttpCall&) { return test::HttpReply{.status = 503}; };
    plan::Reference reference = scene.reference();
    reference.digest = Digest(scene.digest);
    options.policy = plan::PullPolicy::missing;
    options.early = false;
    options.known = out.documents;
    pull::Afterwards rest;
    CHECK(pull::pull(scene.open(), reference, options, scene.meter, rest) == Digest(scene.digest));
    CHECK(scene.open().has_image(Digest(scene.digest)));
}

TEST_CASE("early: what cannot be started so is pulled whole, and a note says why", "[pull][early]") {
    EarlyScene scene;
    std::string why;
    oci::Artifact artifact = scene.early_artifact();
    SECTION("a registry that sends no parts of blobs") {
        scene.content.sends_parts = false;
        why = "the server sends no parts of blobs";
    }
    SECTION("no index") {
        artifact.index.reset();
        why = "they were published without their index";
    }
    SECTION("an index of another release") {
        std::string index = scene.parts.index;
        index[index.size() / 2] ^= 1;
        artifact.index = scene.blob(oci::index_type, index);
        why = "x";
    }
    SECTION("an index of other layers") {
        PublishedScene other;
        other.store = "publisher";
        auto parts = pull::make_early_parts(other.open(), pull::describe(other.open(), Digest(other.digest), "x"), "x");
        artifact.index = scene.blob(oci::index_type, parts.index);
        why = "their index is of other layers";
    }
    SECTION("sums of other layers") {
        artifact.sums = scene.blob(oci::sums_type, scene.parts.sums + std::string(32, 'x'));
        why = "sums of parts of layers instead of";
    }
    SECTION("a layer is missing") {
        artifact.layers.pop_back();
        why = "is not among them";
    }
    scene.publish_signed(artifact);
    CHECK(!scene.start());
    std::string told;
    for (const pull::Event& event : scene.meter.take_events()) told += event.text + "\n";
    CHECK_THAT(told, Contains("the start waits for the layers: "));
    if (why != "x") CHECK_THAT(told, Contains(why));
    CHECK(reads(scene.open(), scene.digest, "", "a") == first_file);
    CHECK(scene.objects("partial") == 0);
    CHECK(scene.objects("tmp") == 0);
}

TEST_CASE("early: without a signature of the site's a start waits", "[pull][early]") {
    EarlyScene scene;
    SECTION("none") { scene.publish(oci::make_artifact(scene.early_artifact())); }
    SECTION("for another name") { scene.publish_signed(scene.early_artifact(), "/other/place"); }
    SECTION("no policy") {
        scene.publish_signed(scene.early_artifact());
        scene.signatures = {};
    }
    CHECK(!scene.start());
    CHECK(scene.objects("partial") == 0);
    CHECK(reads(scene.open(), scene.digest, "", "b") == second_file);
}

TEST_CASE("early: other conversions of a layer in the store do not mix with what was published", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    SECTION("another one") {
        store::NewFile file = scene.open().new_file();
        sys::write_all(file.fd(), scene.halves[0].squashfs + "x", "layer");
        scene.open().publish_layer(std::move(file), scene.image.layers[0].diff_id);
        pull::Afterwards out;
        CHECK_NOTHROW(pull::pull(scene.open(), scene.reference(), scene.early_options(), scene.meter, out));
        CHECK(!out.early);
    }
    SECTION("the same") {
        store::NewFile file = scene.open().new_file();
        sys::write_all(file.fd(), scene.halves[0].squashfs, "layer");
        scene.open().publish_layer(std::move(file), scene.image.layers[0].diff_id);
        REQUIRE(scene.start());
        Reading reading(scene.open(), Digest(scene.digest));
        CHECK((reading.read("a") == first_file));
        CHECK(!reading.is_here("b"));
        CHECK(scene.complete()->layers.size() == 1);
        CHECK(scene.ranges_of(0) == 0);
        CHECK((reading.read("b") == second_file));
    }
}

TEST_CASE("early: a rate bounds what nobody waits for, and no read", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    Reading reading(scene.open(), Digest(scene.digest));
    std::atomic<bool> stop = false;
    pull::Options options = scene.early_options();
    options.fetch_rate = 16 << 10;  // ten minutes for all of it
    options.registry.stop = &stop;
    std::string problem;
    std::jthread fetching([&] {
        try {
            pull::complete_early(scene.open(), scene.reference(), Digest(scene.digest), options, scene.meter);
        } catch (const Error& error) {
            problem = error.what();
        }
    });
    CHECK(reading.read("c") == small_file);
    // Not near its end: with what is waited for comes all that its request has before it.
    CHECK((reading.read("a", 1 << 20, 1 << 20) == first_file.substr(1 << 20, 1 << 20)));
    CHECK(reading.files.coming.map->here() < reading.files.coming.map->count());
    stop = true;
    fetching.join();
    CHECK_THAT(problem, Contains("stopped"));
}

TEST_CASE("early: wrong bytes are never read", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    std::string wrong = scene.halves[0].squashfs;
    wrong[(2 << 20) + 77] ^= 1;
    scene.content.replace_blob(oci::sha256_of(scene.halves[0].squashfs).text(), wrong);
    Reading reading(scene.open(), Digest(scene.digest));
    std::string a;
    std::jthread reader([&] { a = reading.read("a", 2 << 20, 1 << 20); });
    reading.wait_for_wishes(1);
    CHECK_THROWS_WITH(scene.complete(), Contains("the registry sent other bytes than were published"));
    reader.join();
    CHECK((a == cat(-EIO)));
    CHECK(scene.open().unproved().empty());
    // The next one goes on where this one was, once the registry sends the right ones.
    scene.content.replace_blob(oci::sha256_of(scene.halves[0].squashfs).text(), scene.halves[0].squashfs);
    CHECK(scene.complete());
    CHECK((reading.read("a") == first_file));
}

TEST_CASE("early: a registry that has gone is an error after a while, and only for what is missing", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    std::atomic<bool> gone = true;
    scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
        bool of_second = call.target.find(oci::sha256_of(scene.halves[1].squashfs).text()) != call.target.npos;
        return gone && of_second ? std::optional(test::HttpReply{.hang_up = true}) : std::nullopt;
    };
    Reading reading(scene.open(), Digest(scene.digest));
    std::string a, b;
    std::jthread one([&] { a = reading.read("a"); }), two([&] { b = reading.read("b"); });
    // Of five MiB and of three.
    reading.wait_for_wishes(8);
    CHECK_THROWS_AS(scene.complete(), Error);
    one.join(), two.join();
    CHECK((a == first_file));
    CHECK((b == cat(-EIO)));
    gone = false;
    CHECK(scene.complete());
    CHECK((reading.read("b") == second_file));
}

TEST_CASE("early: a mirror sends what the registry no longer does, and the registry what a mirror does not",
          "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    std::atomic<bool> mirror_is_gone = false, registry_is_gone = false;
    auto answer = [&](const test::HttpCall& call, bool gone) {
        bool of_blob = call.target.find("/blobs/") != call.target.npos;
        return gone && of_blob ? test::HttpReply{.hang_up = true} : scene.content.answer(call);
    };
    test::Server mirror([&](const test::HttpCall& call) { return answer(call, mirror_is_gone); });
    scene.fault = [&](const test::HttpCall& call) { return std::optional(answer(call, registry_is_gone)); };
    scene.artifacts.registry = [&](const plan::Reference&) {
        oci::RegistryOptions out;
        out.retry.first = std::chrono::milliseconds(10);
        out.mirrors = {mirror.host()};
        return out;
    };
    REQUIRE(scene.start());
    SECTION("the registry") { registry_is_gone = true; }
    SECTION("the mirror") { mirror_is_gone = true; }
    CHECK(scene.complete()->layers.size() == 2);
    CHECK(Reading(scene.open(), Digest(scene.digest)).read("b") == second_file);
}

TEST_CASE("early: a read can be interrupted, and ends when nobody brings anything", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    Reading reading(scene.open(), Digest(scene.digest));
    std::atomic<unsigned> asked = 0;
    CHECK(reading.read("a", 0, 10, [&] { return ++asked > 2; }) == cat(-EINTR));
    auto&& [end, writing] = sys::make_pipe();
    reading.files.coming.map->set_lifeline(end.get());
    std::string a;
    std::jthread reader([&] { a = reading.read("a", 0, 10); });
    writing.reset();
    reader.join();
    CHECK((a == cat(-EIO)));
    // Or after the time that a site gives it.
    reading.files.coming.map->set_lifeline(-1);
    reading.files.coming.map->set_patience(std::chrono::seconds(0));
    CHECK(reading.read("a", 0, 10) == cat(-EIO));
}

TEST_CASE("early: what a process that was killed has left is taken up", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    Reading reading(scene.open(), Digest(scene.digest));
    std::atomic<bool> stop = false;
    scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
        if (call.target.find(oci::sha256_of(scene.halves[1].squashfs).text()) == call.target.npos) return std::nullopt;
        stop = true;
        return test::HttpReply{.hang_up = true};
    };
    pull::Options options = scene.early_options();
    options.registry.stop = &stop;
    CHECK_THROWS_AS(pull::complete_early(scene.open(), scene.reference(), Digest(scene.digest), options, scene.meter),
                    Error);
    uint32_t here = reading.files.coming.map->here();
    CHECK(here < reading.files.coming.map->count());
    scene.fault = {};
    // A second step of the node finds it.
    size_t asked = scene.server->count("GET /v2/a/b/blobs/" + scene.early_artifact().index->digest.text());
    REQUIRE(scene.start());
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + scene.early_artifact().index->digest.text()) == asked);
    CHECK(scene.complete());
    CHECK((reading.read("b") == second_file));
    CHECK(scene.complete()->layers.size() == 2);
    pull::pull(scene.open(), scene.reference(), scene.options(), scene.meter);
    store::remove_partial(scene.open(), Digest(scene.digest));
    CHECK(!scene.complete());
    // Who had it open still has.
    CHECK((reading.read("a") == first_file));
}

TEST_CASE("early: a folder that was made anew is not taken for what has come", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    auto come = store::find_partial(scene.open(), Digest(scene.digest), store::Access::write);
    REQUIRE(come);
    store::remove_partial(scene.open(), Digest(scene.digest));
    CHECK(!store::publish_partial_layer(scene.open(), Digest(scene.digest), come->layers[0]));
    REQUIRE(scene.start());
    CHECK(!store::publish_partial_layer(scene.open(), Digest(scene.digest), come->layers[0]));
    CHECK(scene.objects("layers") == 0);
    CHECK(scene.complete()->layers.size() == 2);
}

TEST_CASE("early: a profile that cannot be had costs its order alone", "[pull][early]") {
    EarlyScene scene;
    oci::Artifact artifact = scene.early_artifact();
    artifact.profile = scene.blob(oci::profile_type, store::format_profile({2, 1}));
    scene.publish_signed(artifact);
    REQUIRE(scene.start());
    SECTION("it is gone") {
        scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
            if (call.target.find(artifact.profile->digest.text()) == call.target.npos) return std::nullopt;
            return test::HttpReply{.status = 404};
        };
    }
    SECTION("it is another") { scene.content.replace_blob(artifact.profile->digest.text(), "x"); }
    CHECK(scene.complete()->layers.size() == 2);
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + artifact.profile->digest.text()) >= 1);
}

TEST_CASE("early: chunks of before the machine's last start are not believed", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    std::string path = scene.folder / ("store/partial/" + Digest(scene.digest).hex() + "/pieces");
    Fd file = sys::open_file(path, O_RDWR);
    // No character of such a number, so that it is another one.
    REQUIRE(::pwrite(file.get(), "x", 1, 32) == 1);
    CHECK(!store::find_partial(scene.open(), Digest(scene.digest), store::Access::read));
    // It is made anew.
    REQUIRE(scene.start());
    CHECK(scene.complete()->layers.size() == 2);
}

// BERTH_TEST_SCHEDULES=1000 for more of them, from number BERTH_TEST_FIRST_SCHEDULE on.
TEST_CASE("early: whatever goes wrong in whatever order, what is read is right", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    unsigned schedules = schedules_wanted(25);
    ReadCounts counts;
    size_t stopped = 0;
    for (unsigned schedule = first_schedule(); schedule < first_schedule() + schedules; ++schedule) {
        INFO("schedule " << schedule);
        scene.store = cat("store-", schedule);
        scene.fault = {};
        REQUIRE(scene.start());
        Chance chance(schedule);
        std::atomic<unsigned> faults = chance.below(6);
        add_faults(scene, chance, faults);
        Reading reading(scene.open(), Digest(scene.digest));
        std::atomic<bool> over = false;
        auto read = [&] { read_by_chance(reading, chance, over, counts); };
        {
            std::jthread one(read), two(read);
            for (bool done = false; !done;) {
                std::atomic<bool> stop = false, ended = false;
                std::jthread killer([&] { stop_by_chance(chance, stop, ended); });
                pull::Options options = scene.early_options();
                options.registry.stop = &stop;
                try {
                    done = pull::complete_early(scene.open(), scene.reference(), Digest(scene.digest), options,
                                                scene.meter)
                               .unproved.has_value();
                } catch (const Error&) {
                    ++stopped;
                }
                ended = true;
            }
            over = true;
        }
        REQUIRE(counts.wrong == 0);
        CHECK((reading.read("a") == first_file && reading.read("b") == second_file && reading.read("c") == small_file));
        for (const ServedLayer& layer : scene.image.layers)
            REQUIRE(pull::seal_of(scene.open().open_layer(layer.diff_id).get(), "layer") == pull::Seal::good);
        std::filesystem::remove_all(scene.folder / scene.store);
    }
    CHECK(counts.right > schedules);
    std::string line =
        cat(counts.right.load(), " right, ", counts.errors.load(), " errors, ", counts.interrupted.load(),
            " interrupted, ", stopped, " stopped");
    INFO(line);
    if (schedules > 25) WARN(line);
}

TEST_CASE("early: what stopped coming is removed after a day", "[pull][early][store]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    store::collect(scene.open(), {}, false, true);
    CHECK(scene.objects("partial") == 1);
    std::string folder = scene.folder / ("store/partial/" + Digest(scene.digest).hex());
    std::filesystem::last_write_time(folder, std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
    store::collect(scene.open(), {}, false, true);
    CHECK(scene.objects("partial") == 0);
}
