// SHA-256 of a stream, in the form that manifests use.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"

namespace berth::oci {

/// Hash of the bytes given so far. Throws Error when OpenSSL fails (no SHA-256 in a FIPS set-up gone wrong, no memory).
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    void update(std::string_view data);
    /// Ends the stream: nothing may be added afterwards.
    Digest finish();

  private:
    struct Free {
        void operator()(void* context) const;
    };
    std::unique_ptr<void, Free> context_;
};

/// The digest of `data`.
Digest sha256_of(std::string_view data);
/// The same as bytes.
std::array<uint8_t, 32> sha256_bytes(std::string_view data);

/// HMAC (RFC 2104) with SHA-256, as 64 lowercase hex digits. Throws as Sha256 does.
std::string hmac_sha256(std::string_view key, std::string_view data);

/// Whether two codes are the same, in a time that does not tell where they differ.
bool same_code(std::string_view one, std::string_view other);

}  // namespace berth::oci
