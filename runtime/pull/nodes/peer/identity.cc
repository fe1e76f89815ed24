#include "runtime/pull/nodes/peer/identity.hh"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"

namespace berth::pull::nodes {

namespace {

struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* memory) const { BIO_free(memory); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

void check(bool good) {
    if (!good) throw Error("making a key by which this node serves layers: OpenSSL failed; check its configuration");
}

template <typename Write>
std::string pem_of(Write write) {
    Owned<BIO> memory(BIO_new(BIO_s_mem()));
    check(memory && write(memory.get()) == 1);
    char* text = nullptr;
    long size = BIO_get_mem_data(memory.get(), &text);
    return {text, static_cast<size_t>(size)};
}

/// By functions that OpenSSL 1.1 has, too.
Owned<EVP_PKEY> new_key() {
    Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr));
    EVP_PKEY* key = nullptr;
    check(context && EVP_PKEY_keygen_init(context.get()) == 1 &&
          EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), NID_X9_62_prime256v1) == 1 &&
          EVP_PKEY_CTX_set_ec_param_enc(context.get(), OPENSSL_EC_NAMED_CURVE) == 1 &&
          EVP_PKEY_keygen(context.get(), &key) == 1);
    return Owned<EVP_PKEY>(key);
}

Owned<X509> certificate_of(EVP_PKEY* key) {
    Owned<X509> out(X509_new());
    check(out != nullptr);
    constexpr long month = 30L * 24 * 3600, clocks_differ = 24L * 3600;
    X509_set_version(out.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(out.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(out.get()), -clocks_differ);
    X509_gmtime_adj(X509_getm_notAfter(out.get()), month);
    X509_NAME* name = X509_get_subject_name(out.get());
    auto* word = reinterpret_cast<const unsigned char*>("berth");
    check(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, word, -1, -1, 0) == 1 &&
          X509_set_issuer_name(out.get(), name) == 1 && X509_set_pubkey(out.get(), key) == 1 &&
          X509_sign(out.get(), key, EVP_sha256()) > 0);
    return out;
}

std::string pin_of(EVP_PKEY* key) {
    unsigned char* bytes = nullptr;
    int size = i2d_PUBKEY(key, &bytes);
    check(size > 0);
    auto hash = oci::sha256_bytes({reinterpret_cast<char*>(bytes), static_cast<size_t>(size)});
    OPENSSL_free(bytes);
    return cat("sha256//", oci::encode_base64({reinterpret_cast<const char*>(hash.data()), hash.size()}));
}

}  // namespace

Identity make_identity() {
    Owned<EVP_PKEY> key = new_key();
    Owned<X509> certificate = certificate_of(key.get());
    return {pem_of([&](BIO* out) {
                return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
            }),
            pem_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); }), pin_of(key.get())};
}

std::string client_token(const std::string& secret) { return oci::hmac_sha256(secret, "berth-share client"); }

}  // namespace berth::pull::nodes
