// What a signature policy says of SIF files, whose signatures are in them.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/trust/judge.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::trust;

namespace {

/// The verdict about a file that the keyrings "site" and "other" have signed.
Verdict verdict_of(const std::string& requirements, const std::string& path = "/images/x.sif") {
    Policy policy = parse_policy(cat(R"({"default":[{"type":"reject"}],"transports":{"sif":{"/images":[)", requirements,
                                     R"(],"/images/open":[{"type":"insecureAcceptAnything"}]}}})"),
                                 "p.json");
    Means means{[](const std::string& name) { return name.substr(name.rfind('/') + 1); }, {}, {}};
    means.sif = [](const std::vector<std::string>& keyrings) -> std::vector<std::string> {
        for (const std::string& one : keyrings)
            if (one == "site" || one == "other") return {cat("KEY OF ", one)};
        throw Error("signature 5 by key AB: the signature cannot be checked");
    };
    Candidate image{subject_of("sif", path), oci::sha256_of("")};
    return judge(rule_for(policy, image.subject), image, {}, means);
}

std::string signed_by(const std::string& keys) {
    return cat(R"({"type":"signedBy","keyType":"GPGKeys",)", keys, "}");
}

}  // namespace

TEST_CASE("signedBy takes a SIF file that keys of the policy have signed", "[trust]") {
    Verdict good = verdict_of(signed_by(R"("keyPath":"/keys/site")"));
    CHECK(good.allowed);
    CHECK(good.rule == "transports.sif.\"/images\"");
    REQUIRE(good.signers.size() == 1);
    CHECK(good.signers[0].key == "KEY OF site");
    CHECK(good.signers[0].key_name == "/keys/site");
    CHECK(verdict_of(signed_by(R"("keyPaths":["/keys/none","/keys/site"])")).allowed);
    CHECK(verdict_of(signed_by(R"("keyPath":"/keys/site")") + "," + signed_by(R"("keyPath":"/keys/other")"))
              .signers.size() == 2);
    CHECK(verdict_of(signed_by(R"("keyPath":"/keys/none")"), "/images/open/x.sif").allowed);
    CHECK(verdict_of(signed_by(R"("keyPath":"/keys/site")"), "/images2/x.sif").rule == "default");
}

TEST_CASE("a policy refuses a SIF file in a line that says what is wanted", "[trust]") {
    std::string site = signed_by(R"("keyPath":"/keys/site")"), none = signed_by(R"("keyPath":"/keys/none")");
    for (const std::string& requirements : {none, site + "," + none, none + "," + site}) {
        Verdict bad = verdict_of(requirements);
        CHECK_FALSE(bad.allowed);
        CHECK(bad.reason ==
              "wants all that is in the file signed by /keys/none: signature 5 by key AB: the signature "
              "cannot be checked; apptainer sign adds a signature, and apptainer verify shows those that "
              "there are");
    }
    CHECK(verdict_of(R"({"type":"sigstoreSigned","keyPath":"/keys/site"})").reason ==
          "wants a sigstore signature, which SIF files do not have; write signedBy with keyType GPGKeys");
    CHECK(verdict_of(signed_by(R"("keyPath":"/keys/site","signedIdentity":{"type":"matchRepository"})")).reason ==
          "wants a signature for matchRepository, and those in SIF files name no image; leave signedIdentity out");
    CHECK_FALSE(verdict_of(R"({"type":"reject"},)" + site).allowed);
    CHECK_FALSE(verdict_of(R"({"type":"signedBy","keyType":"X509Certificates","keyPath":"/keys/site"})").allowed);
}
