#include "runtime/base/digest.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("digest: sha256 and 64 lower-case digits, and nothing else", "[base]") {
    const std::string hex(64, 'a'), text = "sha256:" + hex;
    Digest digest(text);
    CHECK(digest.text() == text);
    CHECK(digest.hex() == hex);
    CHECK(cat("image ", digest) == "image " + text);
    CHECK(digest == text);
    CHECK_FALSE(digest == hex);
    CHECK(Digest::parse(text) == digest);
    CHECK(Digest::from_hex(hex) == digest);
    CHECK(text_of(digest) == text);
    CHECK(text_of(std::nullopt).empty());
    CHECK(Digest("sha256:" + std::string(64, '0')) < digest);
    for (const std::string& bad :
         {std::string(), std::string("sha256:"), hex, text + "0", text.substr(0, 70), "SHA256:" + hex, "sha512:" + hex,
          "sha256:" + std::string(64, 'A'), "sha256:" + std::string(63, 'a') + "\n", "sha256:../" + hex.substr(3)}) {
        CHECK_FALSE(Digest::parse(bad));
        CHECK_THROWS_WITH(Digest(bad), Catch::EndsWith("not sha256: and 64 lower-case hexadecimal digits"));
    }
    CHECK_FALSE(Digest::from_hex(text));
}
