// Starts that do not wait for the layers of their image: what is waited for comes first, nothing wrong is ever read,
// and all of it comes in the end.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/pull/transfer/early.hh"
#include "runtime/pull/transfer/early_parts.hh"
#include "runtime/pull/transfer/stored.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/profile.hh"
#include "tests/catch.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/unit/trusted_scene.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;

namespace {

const std::string first_file = random_bytes(5 << 20, 1), second_file = random_bytes(3 << 20, 2),
                  small_file = random_bytes(900, 3);

/// Two layers of some pieces each, published with what an early start needs.
struct EarlyScene : TrustedScene {
    pull::EarlyParts parts;

    EarlyScene()
        : TrustedScene({tar_of({{"a", first_file}, {"etc/", ""}, {"etc/os", "base\n"}}),
                        tar_of({{"b", second_file}, {"c", small_file}})}) {
        content.sends_parts = true;
        store = "publisher";
        parts = pull::make_early_parts(open(), pull::describe(open(), Digest(digest), "x"), "x");
        store = "store";
    }
    oci::Artifact early_artifact() {
        oci::Artifact out = artifact();
        out.index = blob(oci::index_type, parts.index);
        out.sums = blob(oci::sums_type, parts.sums);
        return out;
    }
    pull::Options early_options() const {
        pull::Options out = options();
        out.prove_later = out.early = true;
        out.stall_time = std::chrono::seconds(2);
        return out;
    }
    plan::Reference reference() const { return plan::parse_reference(host + "/a/b:1"); }
    /// The manifest of what can start; nothing when the pull has brought the whole image.
    std::optional<Digest> start() {
        pull::Afterwards out;
        CHECK(pull::pull(open(), reference(), early_options(), meter, out) == digest);
        return out.early;
    }
    std::optional<pull::Unproved> complete() {
        return pull::complete_early(open(), reference(), Digest(digest), early_options(), meter);
    }
    size_t ranges_of(size_t layer) const {
        return server->count("GET /v2/a/b/blobs/" + oci::sha256_of(halves[layer].squashfs).text());
    }
};

/// A container of the image, as far as it reads.
struct Reading {
    store::Store::OpenedFiles files;
    squash::DataReader reader;

    explicit Reading(const store::Store& store, const Digest& manifest)
        : files(opened(store, manifest)),
          reader(std::move(files.layers), files.index.layers(), 1 << 20, files.coming) {
        // Less than what a test may take.
        files.coming.arrivals->set_patience(std::chrono::seconds(60));
    }
    static store::Store::OpenedFiles opened(const store::Store& store, const Digest& manifest) {
        auto out = store::open_partial(store, manifest);
        REQUIRE(out);
        return std::move(*out);
    }
    /// Until so many pieces are waited for.
    void wait_for_wishes(size_t count) const {
        for (int tries = 0; tries < 60'000 && files.coming.arrivals->wanted().size() < count; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    squash::FileData file(const std::string& name) const { return *files.index.file(files.index.lookup(1, name)); }
    bool is_here(const std::string& name) const { return reader.is_here(file(name), 0, file(name).size); }
    /// The bytes, or the error as a number.
    std::string read(const std::string& name, uint64_t offset = 0, size_t size = SIZE_MAX,
                     const std::function<bool()>& interrupted = {}) {
        squash::FileData data = file(name);
        std::string out(std::min<uint64_t>(size, data.size - offset), '\0');
        long got = reader.read(data, offset, out, interrupted);
        return got == static_cast<long>(out.size()) ? out : cat(got);
    }
};

}  // namespace

TEST_CASE("early: a start needs the index and the sums, and no layer", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start() == Digest(scene.digest));
    CHECK(scene.ranges_of(0) + scene.ranges_of(1) == 0);
    CHECK(scene.conversions() == 0);
    CHECK(!scene.open().has_image(Digest(scene.digest)));
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
    // What came is a layer like any other, and the image follows without another request for it.
    size_t ranges = scene.ranges_of(0) + scene.ranges_of(1);
    CHECK(scene.pull() == scene.digest);
    CHECK(scene.ranges_of(0) + scene.ranges_of(1) == ranges);
    CHECK(reads(scene.open(), scene.digest, "", "a") == first_file);
    CHECK(scene.conversions() == 0);
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
    reading.files.coming.arrivals->set_lifeline(end.get());
    std::string a;
    std::jthread reader([&] { a = reading.read("a", 0, 10); });
    writing.reset();
    reader.join();
    CHECK((a == cat(-EIO)));
    // Or after the time that a site gives it.
    reading.files.coming.arrivals->set_lifeline(-1);
    reading.files.coming.arrivals->set_patience(std::chrono::seconds(0));
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
    uint32_t here = reading.files.coming.arrivals->here();
    CHECK(here < reading.files.coming.arrivals->count());
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

TEST_CASE("early: pieces of before the machine's last start are not believed", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    REQUIRE(scene.start());
    std::string path = scene.folder / ("store/partial/" + Digest(scene.digest).hex() + "/pieces");
    Fd file = sys::open_file(path, O_RDWR);
    REQUIRE(::pwrite(file.get(), "0", 1, 32) == 1);
    CHECK(!store::find_partial(scene.open(), Digest(scene.digest), store::Access::read));
    // It is made anew.
    REQUIRE(scene.start());
    CHECK(scene.complete()->layers.size() == 2);
}

// BERTH_TEST_SCHEDULES=10000 for more of them.
TEST_CASE("early: whatever goes wrong in whatever order, what is read is right", "[pull][early]") {
    EarlyScene scene;
    scene.publish_signed(scene.early_artifact());
    const char* wanted = std::getenv("BERTH_TEST_SCHEDULES");
    unsigned schedules = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 25;
    const std::map<std::string, std::string> files{{"a", first_file}, {"b", second_file}, {"c", small_file}};
    std::atomic<size_t> read_right = 0, errors = 0, interrupted = 0;
    size_t stopped = 0;
    for (unsigned schedule = 0; schedule < schedules; ++schedule) {
        INFO("schedule " << schedule);
        scene.store = cat("store-", schedule);
        scene.fault = {};
        REQUIRE(scene.start());
        std::mutex mutex;
        std::mt19937 random(schedule);
        auto below = [&](unsigned limit) {
            std::lock_guard lock(mutex);
            return static_cast<unsigned>(random() % limit);
        };
        std::atomic<unsigned> faults = below(6);
        scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
            if (call.target.find("/blobs/") == call.target.npos || faults == 0 || below(3) != 0) return std::nullopt;
            --faults;
            test::HttpReply reply = scene.content.answer(call);
            if (below(4) == 0) return test::HttpReply{.status = 503};
            if (below(3) == 0) return test::HttpReply{.hang_up = true};
            if (reply.body.empty()) return reply;
            size_t place = below(static_cast<unsigned>(reply.body.size()));
            if (below(2) == 0)
                reply.body[place] ^= 1;
            else
                reply.declared_size = reply.body.size(), reply.body.resize(place);
            return reply;
        };
        Reading reading(scene.open(), Digest(scene.digest));
        std::atomic<bool> over = false;
        auto read_some = [&] {
            while (!over) {
                auto file = std::next(files.begin(), below(3));
                auto offset = below(static_cast<unsigned>(file->second.size())), size = below(2 << 20);
                bool ends = below(20) == 0;
                std::string got = reading.read(file->first, offset, size, [&] { return over || ends; });
                if (got == file->second.substr(offset, size))
                    ++read_right;
                else if (got == cat(-EINTR))
                    ++interrupted;
                else
                    got == cat(-EIO) ? ++errors : throw Error(cat("wrong bytes of ", file->first, " at ", offset));
            }
        };
        std::atomic<bool> wrong = false;
        auto guarded = [&] {
            try {
                read_some();
            } catch (const Error&) {
                wrong = true;
            }
        };
        {
            std::jthread one(guarded), two(guarded);
            for (bool done = false; !done;) {
                std::atomic<bool> stop = false;
                std::jthread killer([&] {
                    for (unsigned left = below(60); left > 0 && !stop; --left)
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    stop = below(2) == 0 || stop;
                });
                pull::Options options = scene.early_options();
                options.registry.stop = &stop;
                try {
                    done = pull::complete_early(scene.open(), scene.reference(), Digest(scene.digest), options,
                                                scene.meter)
                               .has_value();
                } catch (const Error&) {
                    ++stopped;
                }
                stop = true;
            }
            over = true;
        }
        REQUIRE(!wrong);
        for (const auto& [name, bytes] : files) REQUIRE(reading.read(name) == bytes);
        for (const ServedLayer& layer : scene.image.layers)
            REQUIRE(pull::seal_of(scene.open().open_layer(layer.diff_id).get(), "layer") == pull::Seal::good);
        std::filesystem::remove_all(scene.folder / scene.store);
    }
    CHECK(read_right > schedules);
    INFO(read_right << " right, " << errors << " errors, " << interrupted << " interrupted, " << stopped << " stopped");
    if (wanted != nullptr) WARN(read_right << " right, " << errors << " errors, " << interrupted << " interrupted, "
                                           << stopped << " stopped");
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
