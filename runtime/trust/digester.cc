#include "runtime/trust/digester.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::trust {

namespace {

void check(bool good) {
    if (!good) throw Error("computing a digest: OpenSSL failed; check its configuration (openssl dgst -sha384)");
}

}  // namespace

Digester::Digester(const std::string& algorithm) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_get_digestbyname(algorithm.c_str()), nullptr) == 1);
}

void Digester::update(std::string_view data) {
    check(EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1);
}

std::string Digester::finish() {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    check(EVP_DigestFinal_ex(context_.get(), hash, &length) == 1);
    return hex_text({hash, length});
}

}  // namespace berth::trust
