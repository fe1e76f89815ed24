#include "runtime/pull/pull.hh"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/image/digest.hh"
#include "runtime/squash/data.hh"
#include "tests/fixtures/pack.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/registry/server.hh"

namespace fs = std::filesystem;
using namespace berth;
using berth::image::sha256_of;
using Catch::Contains;
using test::Content;
using test::HttpCall;
using test::HttpReply;
using test::Server;

namespace {

const std::string oci_manifest = "application/vnd.oci.image.manifest.v1+json";
const std::string oci_index = "application/vnd.oci.image.index.v1+json";
const std::string docker_manifest = "application/vnd.docker.distribution.manifest.v2+json";
const std::string docker_list = "application/vnd.docker.distribution.manifest.list.v2+json";

/// One ustar entry of a regular file or, with a name that ends in `/`, a directory.
std::string tar_entry(const std::string& name, const std::string& content) {
    std::string head(512, '\0');
    auto field = [&](size_t at, const std::string& text) { head.replace(at, text.size(), text); };
    char size[12];
    std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
    field(0, name);
    field(100, name.ends_with("/") ? "0000755" : "0000644");
    field(108, "0000000");
    field(116, "0000000");
    field(124, size);
    field(136, "00000001750");
    field(148, "        ");
    field(156, name.ends_with("/") ? "5" : "0");
    field(257, std::string("ustar\0", 6) + "00");
    unsigned sum = 0;
    for (char c : head) sum += static_cast<unsigned char>(c);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    field(148, std::string(text, 6) + '\0' + ' ');
    return head + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string tar(const std::string& entries) { return entries + std::string(1024, '\0'); }

struct Layer {
    std::string blob;
    std::string diff_id;
};

Layer packed(const std::string& entries) { return {fixtures::gzip(tar(entries)), sha256_of(tar(entries))}; }

std::string descriptor(const std::string& type, const std::string& digest, size_t size, const std::string& more = "") {
    return cat(R"({"mediaType":")", type, R"(","digest":")", digest, R"(","size":)", size, more, "}");
}

/// An image of two layers, the second of which removes a file of the first.
struct Image {
    std::vector<Layer> layers{packed(tar_entry("etc/", "") + tar_entry("etc/os", "PRETTY=base\n") + tar_entry("etc/gone", "x") + tar_entry("big", std::string(300'000, 'b'))),
                              packed(tar_entry("etc/.wh.gone", "") + tar_entry("bin/", "") + tar_entry("bin/tool", "#!tool\n"))};
    bool docker = false;
    std::string config;
    std::string manifest;

    Image() { make_config(); }
    void make_config() {
        std::string ids;
        for (const Layer& layer : layers) ids += cat(ids.empty() ? "" : ",", "\"", layer.diff_id, "\"");
        config = cat(R"({"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["tool"]},"rootfs":{"type":"layers","diff_ids":[)", ids, "]}}");
    }
    const std::string& type() const { return docker ? docker_manifest : oci_manifest; }
    /// Adds all of it and returns the manifest's digest.
    std::string add_to(Content& content) {
        std::string layer_type = docker ? "application/vnd.docker.image.rootfs.diff.tar.gzip" : "application/vnd.oci.image.layer.v1.tar+gzip";
        std::string list;
        for (const Layer& layer : layers) list += cat(list.empty() ? "" : ",", descriptor(layer_type, content.add_blob(layer.blob), layer.blob.size()));
        std::string config_type = docker ? "application/vnd.docker.container.image.v1+json" : "application/vnd.oci.image.config.v1+json";
        manifest = cat(R"({"schemaVersion":2,"mediaType":")", type(), R"(","config":)", descriptor(config_type, content.add_blob(config), config.size()),
                       R"(,"layers":[)", list, "]}");
        return content.add_manifest(type(), manifest);
    }
};

/// A registry, a store and a pull from the one into the other.
struct Scene {
    fixtures::TempFolder folder;
    Content content;
    std::function<std::optional<HttpReply>(const HttpCall&)> fault;
    std::vector<std::string> progress;
    pull::PullLimits limits;
    std::unique_ptr<Server> server = std::make_unique<Server>([this](const HttpCall& call) {
        if (fault)
            if (auto reply = fault(call)) return *reply;
        return content.answer(call);
    });
    std::string host = server->host();

    store::Store open() const { return store::Store::open(folder / "store"); }
    std::string pull(const std::string& suffix = ":1", pull::Policy policy = pull::Policy::newer) {
        pull::Options options;
        options.policy = policy;
        options.registry.limits.slow_seconds = 2;
        options.registry.retry.first = std::chrono::milliseconds(10);
        options.limits = limits;
        return pull::pull(open(), plan::parse_reference(host + "/a/b" + suffix), options, [this](const std::string& line) { progress.push_back(line); });
    }
    std::string failure(const std::string& suffix = ":1", pull::Policy policy = pull::Policy::newer) {
        try {
            pull(suffix, policy);
        } catch (const Error& error) {
            std::string line = error.what();
            CHECK(line.find('\n') == line.npos);
            CHECK_THAT(line, Contains("/a/b"));
            return line;
        }
        return "";
    }
    size_t requests() const { return server->log().size(); }
    size_t objects(const std::string& name) const {
        std::string path = cat(folder / "store", "/", name);
        return fs::exists(path) ? static_cast<size_t>(std::distance(fs::directory_iterator(path), {})) : 0;
    }
    /// Nothing at all, or nothing but whole layers.
    void check_nothing_published(bool layers_too = true) const {
        for (const char* name : {"images", "lists", "refs", "tmp"}) CHECK(objects(name) == 0);
        if (layers_too) CHECK(objects("layers") == 0);
    }
};

std::string reads(const store::Store& store, const std::string& digest, const std::string& directory, const std::string& name) {
    squash::Index index = squash::Index::open(store.open_index(digest).get(), "index");
    uint32_t parent = directory.empty() ? 1 : index.lookup(1, directory);
    auto file = index.file(index.lookup(parent, name));
    if (!file) return "(absent)";
    squash::DataReader reader(store.open_layers(index), index.layers(), 1 << 20);
    std::string out(file->size, '\0');
    REQUIRE(reader.read(*file, 0, out.data(), out.size()) == static_cast<long>(out.size()));
    return out;
}

}  // namespace

TEST_CASE("an image is pulled, merged and recorded; a second pull is one HEAD", "[pull]") {
    Scene scene;
    Image image;
    image.docker = GENERATE(false, true);
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    CHECK(scene.pull() == digest);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(scene.server->count("GET /v2/a/b/manifests/" + digest) == 1);
    CHECK(scene.requests() == 5);

    store::Store store = scene.open();
    CHECK(store.read_document(digest, "manifest.json") == image.manifest);
    CHECK(store.read_document(digest, "config.json") == image.config);
    CHECK(reads(store, digest, "etc", "os") == "PRETTY=base\n");
    CHECK(reads(store, digest, "bin", "tool") == "#!tool\n");
    CHECK(reads(store, digest, "", "big") == std::string(300'000, 'b'));
    CHECK(reads(store, digest, "etc", "gone") == "(absent)");
    CHECK(squash::Index::open(store.open_index(digest).get(), "index").config().cmd == std::vector<std::string>{"tool"});
    fixtures::Squashfs first(cat(store.path(), "/layers/", store::layer_file_name(image.layers[0].diff_id)));
    CHECK(first.content("etc/os") == "PRETTY=base\n");
    CHECK_THAT(first.listing(), Contains("/etc/gone"));
    CHECK(scene.objects("tmp") == 0);

    size_t before = scene.requests();
    CHECK(scene.pull() == digest);
    CHECK(scene.requests() == before + 1);
    CHECK(scene.server->log().back() == "HEAD /v2/a/b/manifests/1");
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.pull(":1", pull::Policy::missing) == digest);
    CHECK(scene.pull(":1", pull::Policy::never) == digest);
    CHECK(scene.requests() == before + 1);
}

TEST_CASE("an image index leads to this machine's image, by tag and by digest", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    std::string platform = cat(R"(,"platform":{"os":"linux","architecture":")", image::this_machine().architecture, "\"}");
    std::string foreign = descriptor(oci_manifest, sha256_of("x"), 1, R"(,"platform":{"os":"plan9","architecture":"mips"})");
    std::string inner = cat(R"({"schemaVersion":2,"manifests":[)", foreign, ",", descriptor(oci_manifest, digest, image.manifest.size(), platform), "]}");
    std::string inner_digest = scene.content.add_manifest(docker_list, inner);
    std::string outer = scene.content.add_manifest(oci_index, cat(R"({"schemaVersion":2,"manifests":[)", descriptor(docker_list, inner_digest, inner.size()), "]}"));
    scene.content.tag("1", outer);
    CHECK(scene.pull() == outer);
    CHECK(scene.open().image_of(outer) == digest);
    CHECK(reads(scene.open(), outer, "etc", "os") == "PRETTY=base\n");
    size_t before = scene.requests();
    CHECK(scene.pull("@" + outer) == outer);
    CHECK(scene.pull("@" + inner_digest) == inner_digest);
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.requests() == before);
}

TEST_CASE("only missing layers are fetched, and a moved tag is followed", "[pull]") {
    Scene scene;
    Image image;
    std::string first = image.add_to(scene.content);
    scene.content.tag("1", first);
    scene.pull();
    image.layers[1] = packed(tar_entry("new", "n"));
    image.make_config();
    std::string second = image.add_to(scene.content);
    scene.content.tag("1", second);
    size_t blobs = scene.server->count("GET /v2/a/b/blobs/");
    CHECK(scene.pull(":1", pull::Policy::missing) == first);
    CHECK(scene.pull() == second);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == blobs + 2);
    CHECK(reads(scene.open(), second, "", "new") == "n");
    CHECK(reads(scene.open(), first, "bin", "tool") == "#!tool\n");
}

TEST_CASE("another codec is for new layers, and stored ones stay as they are", "[pull]") {
    Scene scene;
    Image image;
    scene.content.tag("1", image.add_to(scene.content));
    scene.pull();
    Image derived;
    derived.layers.push_back(packed(tar_entry("more", std::string(300'000, 'm'))));
    derived.make_config();
    scene.content.tag("2", derived.add_to(scene.content));
    scene.limits.compression = {squash::Codec::lz4, 0};
    size_t before = scene.server->count("GET /v2/a/b/blobs/");
    std::string digest = scene.pull(":2");
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == before + 2);
    store::Store store = scene.open();
    CHECK(reads(store, digest, "", "big") == std::string(300'000, 'b'));
    CHECK(reads(store, digest, "", "more") == std::string(300'000, 'm'));
    std::vector<squash::Codec> codecs;
    squash::Index index = squash::Index::open(store.open_index(digest).get(), "index");
    for (const squash::LayerInfo& layer : index.layers()) codecs.push_back(layer.codec);
    CHECK(codecs == std::vector{squash::Codec::zstd, squash::Codec::zstd, squash::Codec::lz4});
}

TEST_CASE("a registry that is down does not stop what is here, and is an error for what is not", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    scene.pull();
    std::string how = GENERATE("gone", "fault", "limits");
    if (how == "gone") scene.server.reset();
    if (how == "fault") scene.fault = [](const HttpCall&) { return HttpReply{.status = 503}; };
    if (how == "limits") scene.fault = [](const HttpCall&) { return HttpReply{.status = 429}; };
    scene.progress.clear();
    CHECK(scene.pull() == digest);
    REQUIRE(scene.progress.size() == 1);
    CHECK_THAT(scene.progress[0], Contains("warning:") && Contains(digest));
    CHECK_FALSE(scene.failure(":2").empty());
    CHECK_FALSE(scene.failure(":1", pull::Policy::always).empty());
    CHECK_THAT(scene.failure(":2", pull::Policy::never), Contains("pull policy is never"));
}

TEST_CASE("an image that the registry denies is not taken from the store", "[pull]") {
    Scene scene;
    Image image;
    scene.content.tag("1", image.add_to(scene.content));
    scene.pull();
    scene.fault = [](const HttpCall&) { return HttpReply{.status = 404}; };
    CHECK_THAT(scene.failure(), Contains("not found"));
}

TEST_CASE("a lost index is made anew and a lost layer is fetched again", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    scene.pull();
    std::string index = cat(scene.folder / "store", "/images/", digest.substr(7), "/index");
    size_t before = scene.requests();
    fs::remove(index);
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(reads(scene.open(), digest, "etc", "os") == "PRETTY=base\n");
    fs::remove(index);
    std::ofstream(index) << "not an index";
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.requests() == before);

    fs::remove(cat(scene.folder / "store", "/layers/", store::layer_file_name(image.layers[1].diff_id)));
    CHECK(scene.pull("@" + digest) == digest);
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + sha256_of(image.layers[0].blob)) == 1);
    CHECK(scene.server->count("GET /v2/a/b/blobs/" + sha256_of(image.layers[1].blob)) == 2);
    CHECK(reads(scene.open(), digest, "bin", "tool") == "#!tool\n");
}

TEST_CASE("hostile row 17: a truncated layer is refused and nothing is published", "[pull]") {
    Scene scene;
    Image image;
    std::string whole = image.layers[0].blob;
    SECTION("the transfer breaks off") {
        scene.content.tag("1", image.add_to(scene.content));
        scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
            if (!call.target.ends_with(sha256_of(whole))) return {};
            return HttpReply{.body = whole.substr(0, whole.size() / 2), .declared_size = whole.size()};
        };
    }
    SECTION("the blob itself is cut, and consistently named") {
        image.layers[0].blob = whole.substr(0, whole.size() / 2);
        scene.content.tag("1", image.add_to(scene.content));
    }
    SECTION("garbage follows") {
        image.layers[0].blob = whole + "garbage";
        scene.content.tag("1", image.add_to(scene.content));
    }
    CHECK_FALSE(scene.failure().empty());
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    scene.check_nothing_published(false);
}

TEST_CASE("hostile row 23: wrong digests and sizes of every kind are refused and nothing is published", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    auto instead = [&](const std::string& what, const std::string& bytes) {
        scene.fault = [=](const HttpCall& call) -> std::optional<HttpReply> {
            if (call.method != "GET" || !call.target.ends_with(what)) return {};
            return HttpReply{.headers = {"Content-Type: " + oci_manifest}, .body = bytes};
        };
    };
    std::string config = image.config;
    const Layer& layer = image.layers[0];
    SECTION("manifest") { instead(digest, image.manifest + " "); }
    SECTION("config of the same size") { config[config.find("amd64")] = 'x', instead(sha256_of(image.config), config); }
    SECTION("config, one byte less") { instead(sha256_of(config), config.substr(1)); }
    SECTION("config, one byte more") { instead(sha256_of(config), config + " "); }
    SECTION("layer, one byte less") { instead(sha256_of(layer.blob), layer.blob.substr(0, layer.blob.size() - 1)); }
    SECTION("layer, one byte more") { instead(sha256_of(layer.blob), layer.blob + '\0'); }
    SECTION("layer of the same size and content, with another digest") {
        std::string other = layer.blob;
        other[4] = static_cast<char>(other[4] + 1);  // the time stamp of gzip
        instead(sha256_of(layer.blob), other);
    }
    CHECK_FALSE(scene.failure().empty());
    CHECK_FALSE(scene.failure("@" + digest).empty());
    CHECK_FALSE(scene.open().open_layer(layer.diff_id));
    scene.check_nothing_published(false);
}

TEST_CASE("hostile row 24: a manifest over 4 MiB or 1024 layers pulls nothing", "[pull]") {
    Scene scene;
    Image image;
    if (GENERATE(true, false)) {
        Layer empty = packed("");
        image.layers.assign(1025, empty);
        image.make_config();
        scene.content.tag("1", image.add_to(scene.content));
    } else {
        scene.content.tag("1", scene.content.add_manifest(oci_manifest, std::string((4 << 20) + 1, ' ')));
    }
    CHECK_THAT(scene.failure(), Contains("larger than") || Contains("more than 1024"));
    scene.check_nothing_published();
    CHECK(scene.server->count("GET /v2/a/b/blobs") == 0);
}

TEST_CASE("hostile rows 25, 26, 28, 30, 31: a manifest that is not right pulls nothing", "[pull]") {
    for (const std::string& bytes : {std::string(100'000, '['), std::string(R"({"schemaVersion":2,"layers":[],"layers":[]})"),
                                     std::string(R"({"schemaVersion":2,"layers":[],"manifests":[]})"), std::string("{\"a\":\"\xff\"}"),
                                     cat(R"({"schemaVersion":2,"config":)", descriptor("application/vnd.oci.image.config.v1+json", "sha256:../../x", 1), R"(,"layers":[]})"),
                                     cat(R"({"schemaVersion":2,"manifests":[)", descriptor(oci_manifest, sha256_of("x"), 1, R"(,"platform":{"os":"plan9","architecture":"mips"})"), "]}"),
                                     std::string(R"({"schemaVersion":1,"fsLayers":[]})")}) {
        Scene scene;
        scene.content.tag("1", scene.content.add_manifest("application/json", bytes));
        CHECK_FALSE(scene.failure().empty());
        scene.check_nothing_published();
        CHECK(scene.requests() == 2);
    }
}

TEST_CASE("hostile row 27: indexes are followed four deep", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    size_t size = image.manifest.size();
    std::string type = oci_manifest;
    for (int depth = 1; depth <= 5; ++depth) {
        std::string list = cat(R"({"schemaVersion":2,"manifests":[)", descriptor(type, digest, size), "]}");
        digest = scene.content.add_manifest(oci_index, list);
        size = list.size();
        type = oci_index;
        scene.content.tag(cat(depth), digest);
    }
    CHECK_THAT(scene.failure(":5"), Contains("more than 4 image indexes"));
    scene.check_nothing_published();
    CHECK_FALSE(scene.pull(":4").empty());
}

TEST_CASE("hostile row 29: a layer whose content is not what the config says is refused", "[pull]") {
    Scene scene;
    Image image;
    image.layers[0].diff_id = sha256_of("something else");
    image.make_config();
    scene.content.tag("1", image.add_to(scene.content));
    CHECK_THAT(scene.failure(), Contains("diff_id is") && Contains("instead of " + image.layers[0].diff_id));
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    CHECK_FALSE(scene.open().open_layer(packed("").diff_id));
    scene.check_nothing_published(false);

    image.config = cat(R"({"rootfs":{"type":"layers","diff_ids":[")", image.layers[1].diff_id, "\"]}}");
    scene.content.tag("2", image.add_to(scene.content));
    CHECK_THAT(scene.failure(":2"), Contains("1 diff_ids for 2 layers"));
}

TEST_CASE("hostile row 36: the addresses that a manifest gives for a foreign layer are not asked", "[pull]") {
    Scene scene;
    Server elsewhere([](const HttpCall&) { return HttpReply{}; });
    Image image;
    image.add_to(scene.content);
    std::string urls = cat(R"(,"urls":["http://)", elsewhere.host(), R"(/layer"])");
    for (size_t at = image.manifest.find("layers"); (at = image.manifest.find("}", at + 1)) < image.manifest.size() - 2; at += urls.size()) image.manifest.insert(at, urls);
    REQUIRE_THAT(image.manifest, Contains("/layer\"]}]}"));
    scene.content.tag("1", scene.content.add_manifest(oci_manifest, image.manifest));
    CHECK_FALSE(scene.pull().empty());
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(elsewhere.log().empty());
}

TEST_CASE("hostile row 45: a pull killed in the middle of a layer leaves nothing", "[pull]") {
    Scene scene;
    Image image;
    scene.content.tag("1", image.add_to(scene.content));
    std::atomic<bool> reached = false;
    std::string slow = sha256_of(image.layers[0].blob);
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (!call.target.ends_with(slow)) return {};
        reached = true;
        return HttpReply{.body = image.layers[0].blob, .trickle_ms = 20};
    };
    // In a process of its own; only the address comes from here, for a fork takes no threads along.
    std::string program = cat(fs::read_symlink("/proc/self/exe").parent_path().parent_path().string(), "/berth-pull");
    if (!fs::exists(program)) {
        if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL("no " << program << ": build it first");
        WARN("not tested: no " << program << ", build it first");
        return;
    }
    std::string store = scene.folder / "store";
    std::string reference = scene.host + "/a/b:1";
    pid_t child = ::fork();
    if (child == 0) {
        ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        ::execl(program.c_str(), program.c_str(), "--report", "--store", store.c_str(), reference.c_str(), nullptr);
        ::_exit(127);
    }
    for (int i = 0; i < 500 && !reached; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(reached);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK_FALSE(scene.open().open_layer(image.layers[0].diff_id));
    scene.check_nothing_published(false);
    scene.fault = {};
    CHECK_FALSE(scene.pull().empty());
}

TEST_CASE("hostile row 46: many pulls of one image at once fetch each blob once", "[pull]") {
    Scene scene;
    Image image;
    std::string digest = image.add_to(scene.content);
    scene.content.tag("1", digest);
    std::atomic<int> succeeded = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i)
        threads.emplace_back([&] {
            pull::Options options;
            store::Store store = scene.open();
            if (pull::pull(store, plan::parse_reference(scene.host + "/a/b:1"), options, [](const std::string&) {}) == digest) ++succeeded;
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(succeeded == 16);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 3);
    CHECK(scene.objects("tmp") == 0);
}

TEST_CASE("an unknown tag and a bad policy are named", "[pull]") {
    Scene scene;
    CHECK_THAT(scene.failure(":none"), Contains("not found"));
    scene.check_nothing_published();
    CHECK_THROWS_WITH(pull::parse_policy("often"), Contains("not one of newer"));
    CHECK_THROWS_WITH(pull::pull(scene.open(), plan::parse_reference("./x.sqsh"), {}, [](const std::string&) {}), Contains("needs no pull"));
}
