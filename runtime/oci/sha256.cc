#include "runtime/oci/sha256.hh"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

void check(int result) {
    if (result != 1)
        throw Error("computing a SHA-256 digest: OpenSSL failed; check its configuration (openssl dgst -sha256)");
}

EVP_MD_CTX* evp(void* context) {
    return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

void Sha256::Free::operator()(void* context) const {
    EVP_MD_CTX_free(evp(context));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
    check(context_ && EVP_DigestInit_ex(evp(context_.get()), EVP_sha256(), nullptr));
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view data) {
    check(EVP_DigestUpdate(evp(context_.get()), data.data(), data.size()));
}

Digest Sha256::finish() {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    check(EVP_DigestFinal_ex(evp(context_.get()), hash, &length));
    return Digest("sha256:" + hex_text({hash, length}));
}

Digest sha256_of(std::string_view data) {
    Sha256 hash;
    hash.update(data);
    return hash.finish();
}

std::array<uint8_t, 32> sha256_bytes(std::string_view data) {
    std::array<uint8_t, 32> out;
    check(EVP_Digest(data.data(), data.size(), out.data(), nullptr, EVP_sha256(), nullptr));
    return out;
}

std::string hmac_sha256(std::string_view key, std::string_view data) {
    unsigned char code[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    check(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(data.data()), data.size(), code, &length) != nullptr);
    return hex_text({code, length});
}

bool same_code(std::string_view one, std::string_view other) {
    return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace berth::oci
