// Keys of signatures, by OpenSSL: ECDSA with SHA-256, RSA (PKCS #1 v1.5, SHA-256) and Ed25519, in PEM.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace berth::trust {

struct FreeKey {
    void operator()(void* key) const;  ///< an EVP_PKEY
};
using KeyOwner = std::unique_ptr<void, FreeKey>;

class PublicKey {
  public:
    /// The first PEM block of `pem`. Throws Error naming `what` for another kind of key, and for RSA below 2048 bits.
    PublicKey(std::string_view pem, const std::string& what);
    explicit PublicKey(KeyOwner key, std::string name) : key_(std::move(key)), name_(std::move(name)) {}

    bool verifies(std::string_view message, std::string_view signature) const;
    /// "sha256:..." of the key itself (SubjectPublicKeyInfo), whatever file it stands in.
    std::string fingerprint() const;
    /// Where it is from, for messages.
    const std::string& name() const { return name_; }
    std::string pem() const;

  private:
    KeyOwner key_;
    std::string name_;
};

class PrivateKey {
  public:
    /// PKCS #8, or the older forms of PEM, without a password. Throws Error naming `what`.
    PrivateKey(std::string_view pem, const std::string& what);

    std::string sign(std::string_view message) const;
    PublicKey public_key() const;

  private:
    KeyOwner key_;
    std::string name_;
};

}  // namespace berth::trust
