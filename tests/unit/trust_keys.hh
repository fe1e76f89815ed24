// Keys for tests of signatures, made anew.
#pragma once
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>

#include "runtime/trust/signature/key.hh"

namespace berth::test {

/// In PEM; kind: "P-256", "P-384", "RSA", "RSA-1024", "ED25519", "X25519".
inline std::string make_key_text(const std::string& kind) {
    int type = kind.starts_with("RSA")  ? EVP_PKEY_RSA
               : kind.starts_with("P-") ? EVP_PKEY_EC
               : kind == "ED25519"      ? EVP_PKEY_ED25519
                                        : EVP_PKEY_X25519;
    std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new_id(type, nullptr),
                                                                        EVP_PKEY_CTX_free);
    EVP_PKEY_keygen_init(context.get());
    if (type == EVP_PKEY_RSA) EVP_PKEY_CTX_set_rsa_keygen_bits(context.get(), kind == "RSA" ? 2048 : 1024);
    if (type == EVP_PKEY_EC)
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(),
                                               kind == "P-256" ? NID_X9_62_prime256v1 : NID_secp384r1);
    EVP_PKEY* key = nullptr;
    EVP_PKEY_keygen(context.get(), &key);
    std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    EVP_PKEY_free(key);
    char* data = nullptr;
    long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<size_t>(size)};
}

inline trust::PrivateKey make_key(const std::string& kind) { return {make_key_text(kind), "test key " + kind}; }

}  // namespace berth::test
