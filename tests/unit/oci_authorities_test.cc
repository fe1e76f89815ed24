#include <set>

#include "runtime/oci/registry/authorities.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

std::string chosen(const std::string& own, const std::set<std::string>& there) {
    return oci::authorities(own, [&](const std::string& path) { return there.contains(path); });
}

}  // namespace

TEST_CASE("certificate authorities: libcurl's own file where it is there, else the one that this distribution has") {
    const std::string debian = "/etc/ssl/certs/ca-certificates.crt", red_hat = "/etc/pki/tls/certs/ca-bundle.crt";
    CHECK(chosen(debian, {debian, red_hat}) == "");
    CHECK(chosen(red_hat, {debian, red_hat}) == "");
    CHECK(chosen(debian, {red_hat}) == red_hat);
    CHECK(chosen(debian, {"/etc/ssl/ca-bundle.pem"}) == "/etc/ssl/ca-bundle.pem");
    CHECK(chosen("", {debian, red_hat}) == debian);
    CHECK(chosen(debian, {}) == "");
}
