// Manifests of SIF files in registries.
#include "runtime/oci/sif_artifact.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
using Catch::Contains;

namespace {

std::string part(std::string_view type) {
    return cat(R"({"mediaType":")", type, R"(","size":12,"digest":"sha256:)", std::string(64, 'a'), R"("})");
}

std::string manifest(const std::string& layers) {
    return cat(R"({"schemaVersion":2,"config":{"mediaType":"application/vnd.sylabs.sif.config.v1+json",)",
               R"("digest":"sha256:)", std::string(64, 'b'), R"(","size":2},"layers":[)", layers, "]}");
}

}  // namespace

TEST_CASE("oci: a SIF file is the one part of its artifact", "[oci]") {
    for (std::string_view type : {oci::sif_layer_type, oci::early_sif_layer_type}) {
        oci::Descriptor file = oci::parse_sif_artifact(manifest(part(type)), "x");
        CHECK(file.digest.hex() == std::string(64, 'a'));
        CHECK(file.size == 12);
    }
}

TEST_CASE("oci: what is no SIF file is refused, with what to write for an image", "[oci]") {
    auto refusal = [](const std::string& text) -> std::string {
        try {
            oci::parse_sif_artifact(text, "image oras://h/a:1");
        } catch (const Error& error) {
            return error.what();
        }
        return "none";
    };
    std::string sif = part(oci::sif_layer_type);
    CHECK_THAT(refusal(manifest(part("application/vnd.oci.image.layer.v1.tar+gzip"))),
               Contains("image oras://h/a:1: of type") && Contains("write docker://"));
    CHECK_THAT(refusal(manifest(part("application/x-other"))), Contains("which is no SIF file"));
    CHECK_THAT(refusal(manifest(sif + "," + sif)), Contains("an artifact of 2 parts"));
    CHECK_THAT(refusal(manifest("")), Contains("an artifact of 0 parts"));
    CHECK_THAT(refusal(R"({"schemaVersion":2,"manifests":[]})"), Contains("no SIF file"));
    CHECK_THAT(refusal("[]"), Contains("not a JSON object"));
    CHECK_THAT(refusal("{"), Contains("image oras://h/a:1"));
    CHECK_THAT(refusal(manifest(R"({"mediaType":"x","size":-1,"digest":"sha256:1"})")), Contains("image oras://"));
}

TEST_CASE("oci: the artifact of a SIF file is as Apptainer writes it, to the byte", "[oci]") {
    Digest digest = Digest::from_hex(std::string(64, 'a')).value();
    std::string text =
        oci::make_sif_artifact({"", digest, 29814784}, "ubuntu_latest.sif",
                               {"org.opencontainers.image.created=2023-12-19T16:02:14Z", "b=y", "b=z=1"});
    CHECK(text ==
          R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{)"
          R"("mediaType":"application/vnd.sylabs.sif.config.v1+json","size":2,"digest":)"
          R"("sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","data":"e30="},"layers":[{)"
          R"("mediaType":"application/vnd.sylabs.sif.layer.v1.sif","size":29814784,"digest":"sha256:)" +
              std::string(64, 'a') +
              R"(","annotations":{"org.opencontainers.image.title":"ubuntu_latest.sif"}}],)"
              R"("annotations":{"b":"z=1","org.opencontainers.image.created":"2023-12-19T16:02:14Z"}})");
    CHECK(oci::make_sif_artifact({"", digest, 1}, "x", {}).find("\"annotations\":{\"org.opencontainers.image.title") !=
          std::string::npos);
    CHECK(oci::parse_sif_artifact(text, "x").digest == digest);
}
