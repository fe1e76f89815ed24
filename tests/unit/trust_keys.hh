// Keys for tests of signatures, made anew.
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <string>

#include "runtime/trust/signature/key.hh"

namespace berth::test {

/// In PEM; kind: "P-256", "P-384", "RSA", "RSA-1024", "ED25519", "X25519".
inline std::string make_key_text(const std::string& kind) {
    EVP_PKEY* key = kind.starts_with("RSA") ? EVP_RSA_gen(kind == "RSA" ? 2048U : 1024U)
                    : kind.starts_with("P-") ? EVP_EC_gen(kind.c_str())
                                             : EVP_PKEY_Q_keygen(nullptr, nullptr, kind.c_str());
    std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    EVP_PKEY_free(key);
    char* data = nullptr;
    long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<size_t>(size)};
}

inline trust::PrivateKey make_key(const std::string& kind) { return {make_key_text(kind), "test key " + kind}; }

}  // namespace berth::test
