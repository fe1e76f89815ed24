#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/squash/format/sif_write.hh"
#include "runtime/trust/sif.hh"
#include "runtime/trust/sif_envelope.hh"
#include "runtime/trust/signature/bundle.hh"
#include "runtime/trust/signature/sif_statement.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/trust_keys.hh"

using namespace berth;
using namespace berth::trust;
using squash::sif::Descriptor;
using squash::sif::group_mark;

namespace {

constexpr std::string_view armor = "-----BEGIN PGP SIGNED MESSAGE-----\n";
const std::string key = "00112233445566778899AABBCCDDEEFF00112233";

/// In place of gpgv: what stands behind the first line is the text, signed by `key`.
Means::GpgText fake_gpg(const std::vector<std::string>&, const std::string& message) {
    return {message.substr(armor.size()), key};
}

/// A SIF file of four objects, which can be signed.
struct Scene {
    fixtures::TempFolder folder;
    Fd file = folder.create("x.sif");

    Scene() {
        squash::SifForm form{.architecture = "amd64",
                             .id = {'i'},
                             .time = 7,
                             .definition = "bootstrap: docker\n",
                             .texts = {{"a.json", "{\"a\": 1}"}, {"b.json", "{}"}}};
        std::string partition(9000, 'p');
        REQUIRE(::pwrite(file.get(), partition.data(), partition.size(),
                         static_cast<off_t>(squash::sif_partition_start(form))) == 9000);
        squash::write_sif(file.get(), form, "x.sif");
    }
    squash::SifObjects objects() const { return squash::read_sif(file.get(), "x.sif"); }
    std::string bytes() const { return sys::read_file(folder / "x.sif", 1 << 20); }
    std::string content(const Descriptor& one) const {
        return bytes().substr(static_cast<size_t>(one.offset), static_cast<size_t>(one.size));
    }
    nlohmann::json statement() const {
        squash::SifObjects all = objects();
        nlohmann::json list = nlohmann::json::array();
        for (const Descriptor& one : all.used)
            list.push_back({{"relativeId", one.id - 1},
                            {"descriptorDigest", oci::sha256_of(signed_fields(one, 1)).text()},
                            {"objectDigest", oci::sha256_of(content(one)).text()}});
        return {{"version", 1},
                {"header", {{"digest", oci::sha256_of(signed_fields(all.header)).text()}}},
                {"objects", list}};
    }
    /// Adds a signature with this text, of group 1.
    void sign(const std::string& text, uint32_t link = group_mark | 1, const std::string& by = key) {
        squash::SifObjects all = objects();
        std::string message = cat(armor, text);
        Descriptor one{};
        one.type = squash::sif::type_signature;
        one.used = 1;
        one.id = static_cast<uint32_t>(all.used.size() + 1);
        one.group = group_mark;
        one.link = link;
        one.offset = static_cast<int64_t>(bytes().size());
        one.size = static_cast<int64_t>(message.size());
        one.hash = 1;
        for (size_t i = 0; i < 20; ++i)
            one.fingerprint[i] = static_cast<uint8_t>(std::stoi(by.substr(2 * i, 2), nullptr, 16));
        put_bytes(sys::bytes_of(one), 4096 + all.used.size() * sizeof one);
        put(message, static_cast<size_t>(one.offset));
    }
    void put(std::string_view data, size_t at) const {
        REQUIRE(::pwrite(file.get(), data.data(), data.size(), static_cast<off_t>(at)) ==
                static_cast<ssize_t>(data.size()));
    }
    void put_bytes(std::span<const char> data, size_t at) const { put({data.data(), data.size()}, at); }
    std::vector<SifSignature> verified(const SifScope& scope = {}) const {
        SifContents contents(file.get(), "x.sif");
        return verify_sif(contents, "x.sif", scope, {"keys"}, fake_gpg);
    }
    /// Why it is refused; empty: it is not.
    std::string problem(const SifScope& scope = {}) const {
        try {
            verified(scope);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }
};

}  // namespace

TEST_CASE("a signature of a SIF file covers all of its group", "[trust]") {
    Scene scene;
    scene.sign(scene.statement().dump());
    auto good = scene.verified();
    REQUIRE(good.size() == 1);
    CHECK(good[0].id == 5);
    CHECK(good[0].key == key);
    CHECK(good[0].objects == std::vector<uint32_t>{1, 2, 3, 4});
    CHECK(scene.verified({.group = 1}).size() == 1);
    good = scene.verified({.object = 3});
    REQUIRE(good.size() == 1);
    CHECK(good[0].objects == std::vector<uint32_t>{3});
}

TEST_CASE("no byte of what a signature of a SIF file covers can be another", "[trust]") {
    Scene scene;
    size_t end = scene.bytes().size();
    scene.sign(scene.statement().dump());
    REQUIRE(scene.problem().empty());
    std::string bytes = scene.bytes();
    squash::SifObjects all = scene.objects();
    std::vector<size_t> covered;
    auto add = [&](size_t from, size_t to) {
        for (size_t i = from; i < to; ++i) covered.push_back(i);
    };
    add(0, 45), add(48, 64);  // launch, magic, version; id
    for (size_t i = 0; i < 4; ++i) {
        size_t at = 4096 + i * sizeof(Descriptor);
        add(at, at + 33);  // to the size
        add(at + offsetof(Descriptor, created), at + offsetof(Descriptor, modified));
        add(at + offsetof(Descriptor, uid), at + sizeof(Descriptor));
        add(static_cast<size_t>(all.used[i].offset), static_cast<size_t>(all.used[i].offset + all.used[i].size));
    }
    CHECK(covered.back() == end - 1);
    size_t checked = 0;
    for (size_t at : covered) {
        scene.put(std::string(1, static_cast<char>(bytes[at] ^ 0x55)), at);
        if (scene.problem().empty()) FAIL_CHECK("a change of byte " << at << " is not seen");
        scene.put(std::string_view(bytes).substr(at, 1), at);
        ++checked;
    }
    CHECK(checked > 11'000);
    CHECK(scene.problem().empty());
}

TEST_CASE("a signature of a SIF file that does not fit is refused in a line that says why", "[trust]") {
    Scene scene;
    CHECK(scene.problem() == "verifying x.sif: signature not found for group 1");
    CHECK(scene.problem({.group = 2}) == "verifying x.sif: it has no group 2");
    CHECK(scene.problem({.object = 9}) == "verifying x.sif: it has no object 9");
    nlohmann::json statement = scene.statement();
    auto why = [&](const nlohmann::json& text) {
        Scene other;
        other.sign(text.dump());
        return other.problem();
    };
    auto fewer = statement, more = statement, twice = statement, version = statement, digest = statement;
    fewer["objects"].erase(3);
    more["objects"].push_back(statement["objects"][0]);
    twice["objects"][3] = twice["objects"][2];
    version["version"] = 2;
    digest["header"]["digest"] = "md5:00";
    std::string start = "verifying x.sif: signature 5: ";
    CHECK(why(fewer) == start + "it covers 3 objects, and its group has 4");
    CHECK(why(more) == start + "it covers 5 objects, and its group has 4");
    CHECK(why(twice) == start + "it does not cover object 3");
    CHECK(why(version) == start + "what it signs is not of version 1");
    CHECK(why(digest) == start + "its digests are md5, not sha256, sha384 or sha512");
    CHECK(why("text") == start + "what it signs is no object of JSON");
    Scene foreign;
    foreign.sign(statement.dump(), group_mark | 1, std::string(40, 'F'));
    CHECK(foreign.problem() == start + "it is by another key than it says");
    Scene silent;
    silent.sign(statement.dump(), group_mark | 1, std::string(40, '0'));
    CHECK(silent.problem().empty());
    Scene apart;
    apart.sign(statement.dump());
    uint32_t none = group_mark;
    apart.put_bytes(sys::bytes_of(none), 4096 + 3 * sizeof(Descriptor) + offsetof(Descriptor, group));
    CHECK(apart.problem() == "verifying x.sif: object 4 is in no group");
}

TEST_CASE("objects of a SIF file that have one number are refused, whichever is asked for", "[trust]") {
    Scene scene;
    scene.sign(scene.statement().dump());
    uint32_t third = 3;
    scene.put_bytes(sys::bytes_of(third), 4096 + 1 * sizeof(Descriptor) + offsetof(Descriptor, id));
    CHECK(scene.problem() == "verifying x.sif: two objects have the number 3");
    CHECK(scene.problem({.object = 3}) == "verifying x.sif: two objects have the number 3");
}

TEST_CASE("each of several signatures of a SIF file has to be good", "[trust]") {
    Scene scene;
    scene.sign(scene.statement().dump());
    auto statement = scene.statement();
    statement["objects"].erase(4);
    scene.sign(statement.dump());
    CHECK(scene.verified().size() == 2);
    auto bad = statement;
    bad["objects"][0]["objectDigest"] = bad["objects"][1]["objectDigest"];
    scene.sign(bad.dump());
    CHECK(scene.problem() == "verifying x.sif: signature 7: object 1 was changed");
}

TEST_CASE("one good signature of a group is enough for a policy, and every group needs one", "[trust]") {
    Scene scene;
    SifScope policy{.one_is_enough = true};
    CHECK(scene.problem(policy) == "verifying x.sif: signature not found for group 1");
    nlohmann::json statement = scene.statement(), bad = statement;
    bad["objects"][0]["objectDigest"] = bad["objects"][1]["objectDigest"];
    scene.sign(bad.dump());
    CHECK(scene.problem(policy) == "verifying x.sif: signature 5: object 1 was changed");
    scene.sign(statement.dump());
    CHECK_FALSE(scene.problem().empty());
    auto good = scene.verified(policy);
    REQUIRE(good.size() == 1);
    CHECK(good[0].id == 6);
    // An object that somebody has added to the group, and one of another group.
    Descriptor added = scene.objects().used[2];
    added.id = 7;
    for (auto [group, reason] : {std::pair{1U, "signature 5: it covers 4 objects, and its group has 5"},
                                 std::pair{2U, "signature not found for group 2"}}) {
        added.group = group_mark | group;
        scene.put_bytes(sys::bytes_of(added), 4096 + 6 * sizeof added);
        CHECK(scene.problem(policy) == cat("verifying x.sif: ", reason));
    }
    Scene older;
    older.sign("SIFHASH:\n" + std::string(64, '0'));
    CHECK(older.problem(policy) == "verifying x.sif: signature not found for group 1; one of the older form does not "
                                   "cover the header and the descriptors");
}

TEST_CASE("hostile: a SIF file with very many signatures is refused", "[trust]") {
    Scene scene;
    for (int i = 0; i < 33; ++i) scene.sign("no statement");
    CHECK(scene.problem({.one_is_enough = true}) == "verifying x.sif: group 1 has more than 32 signatures");
}

TEST_CASE("sums are made of the very bytes that were verified", "[trust]") {
    Scene scene;
    scene.sign(scene.statement().dump());
    SifContents contents(scene.file.get(), "x.sif");
    contents.make_sums();
    CHECK_THROWS_WITH(contents.sums(), "verifying x.sif: object 4 is covered by nothing");
    verify_sif(contents, "x.sif", {}, {"keys"}, fake_gpg);
    squash::PartSums sums = contents.sums();
    CHECK(sums.is_whole());
    REQUIRE(sums.parts.size() == 1);
    const Descriptor partition = contents.objects().used[3];
    CHECK(sums.parts[0].place.offset == static_cast<uint64_t>(partition.offset));
    CHECK(sums.parts[0].place.size == 9000);
    CHECK(sums.content == oci::sha256_of(cat("sha256:", contents.digest(partition, "sha256"), "\n")).hex());
    std::string out(9000, '\0');
    CHECK(sums.read(scene.file.get(), out, sums.parts[0].place.offset) == 0);
    CHECK(out == std::string(9000, 'p'));
    // Another pass over the file has to find the same.
    scene.put("q", sums.parts[0].place.offset + 8999);
    CHECK(sums.read(scene.file.get(), out, sums.parts[0].place.offset) < 0);
    CHECK_THROWS_WITH(contents.digest(partition, "sha384"), "verifying x.sif: the file was changed meanwhile");
}

TEST_CASE("a signature in an envelope is by a key in PEM, and PGP's is not", "[trust]") {
    PrivateKey own = test::make_key("ED25519"), other = test::make_key("P-256");
    Scene scene;
    auto sealed = [&](const PrivateKey& by, std::string_view kind = "application/vnd.sylabs.sif-metadata+json") {
        std::string payload = scene.statement().dump();
        nlohmann::json signature{{"keyid", "x"},
                                 {"sig", oci::encode_base64(by.sign(pre_authentication(kind, payload)))}};
        return nlohmann::json{{"payloadType", kind},
                              {"payload", oci::encode_base64(payload)},
                              {"signatures", nlohmann::json::array({signature})}};
    };
    std::vector<std::string> keys{own.public_key().pem()};
    auto good = text_of_envelope(keys, sealed(own).dump());
    CHECK(good.text == scene.statement().dump());
    CHECK(good.key == own.public_key().fingerprint());
    auto why = [&](const nlohmann::json& envelope) {
        try {
            text_of_envelope(keys, envelope.dump());
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(why(sealed(other)) == "the signature: it is by another key");
    CHECK_THAT(why(sealed(own, "text/plain")), Catch::Contains("the payload is \"text/plain\""));
    auto changed = sealed(own);
    changed["payload"] = oci::encode_base64("{}");
    CHECK(why(changed) == "the signature: it is by another key");
    for (const char* left_out : {"payload", "payloadType", "signatures"}) {
        auto part = sealed(own);
        part.erase(left_out);
        CHECK_FALSE(why(part).empty());
    }
    scene.sign(scene.statement().dump());
    CHECK(scene.problem({.envelopes = true}) ==
          "verifying x.sif: signature 5: of PGP; apptainer verify without --key checks it");
}

TEST_CASE("hostile: the order of descriptors, which no signature covers, cannot be another", "[trust]") {
    Scene scene;
    scene.sign(scene.statement().dump());
    squash::SifObjects all = scene.objects();
    scene.put_bytes(sys::bytes_of(all.used[1]), 4096);
    scene.put_bytes(sys::bytes_of(all.used[0]), 4096 + sizeof(Descriptor));
    CHECK(scene.problem().empty());
    SifContents contents(scene.file.get(), "x.sif");
    CHECK_THROWS_WITH(contents.make_sums(), Catch::StartsWith("verifying x.sif: its descriptors are not in the order"));
}

TEST_CASE("a signature of a SIF file in the older form counts where that is asked for", "[trust]") {
    Scene scene;
    std::string all;
    for (const Descriptor& one : scene.objects().used) all += scene.content(one);
    std::string second = scene.content(scene.objects().used[1]);
    scene.sign(cat("SIFHASH:\n", oci::sha256_of(all).hex(), "\n"));
    scene.sign(cat("SIFHASH:\n", oci::sha256_of(second).hex()), 2);
    CHECK_THAT(scene.problem(), Catch::Contains("one of the older form") && Catch::Contains("--legacy-insecure"));
    CHECK(scene.verified({.older = true}).at(0).objects == std::vector<uint32_t>{1, 2, 3, 4});
    CHECK(scene.verified({.object = 2, .older = true}).at(0).id == 6);
    CHECK_THAT(scene.problem({.object = 3, .older = true}), Catch::Contains("signature not found for object 3"));
    scene.put("X", static_cast<size_t>(scene.objects().used[1].offset));
    CHECK(scene.problem({.older = true}) == "verifying x.sif: signature 5: what it covers was changed");
    CHECK(scene.problem({.object = 2, .older = true}) == "verifying x.sif: signature 6: what it covers was changed");
}
