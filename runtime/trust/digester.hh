// A digest of any algorithm that OpenSSL knows, of bytes that come in parts.
#pragma once
#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

namespace berth::trust {

class Digester {
  public:
    /// `algorithm` as OpenSSL names it. Throws Error.
    explicit Digester(const std::string& algorithm);
    void update(std::string_view data);
    /// Hexadecimal digits; once.
    std::string finish();

  private:
    std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace berth::trust
