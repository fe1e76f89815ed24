// The words for what a registry answered instead of an image. Pure.
#pragma once
#include <string>

#include "runtime/oci/registry/http.hh"

namespace berth::oci {

/// One line for an answer that is no success, naming `what` ("image REF") and the `server` ("registry HOST"), and what
/// to do. `login` tells which login was sent; `now` (seconds since 1970) is what a Retry-After counts from.
std::string refusal(const HttpAnswer& answer, const std::string& what, const std::string& server,
                    const std::string& login, int64_t now);

/// True for an answer that may be another one soon: 408, 429 and a server's fault.
bool is_passing(long status);

/// What a registry refused for good.
class Refused : public Error {
  public:
    Refused(const std::string& line, long status) : Error(line), status_(status) {}
    long status() const { return status_; }

  private:
    long status_;
};

/// The registry has no such manifest, or does not say that it has.
class NoManifest : public Refused {
  public:
    explicit NoManifest(const std::string& line) : Refused(line, 404) {}
};

/// Throws the refusal as Unreachable when asking later may help (429, 5xx), else as Refused.
[[noreturn]] void refuse(const HttpAnswer& answer, const std::string& what, const std::string& server,
                         const std::string& login = {});

/// Throws Error when an answer of success is a page for people: a proxy's, or one that asks for a login.
void refuse_page(const HttpAnswer& answer, const std::string& what, const std::string& server);

/// The first message of the specification's error document, else the start of the body; cut and escaped. Empty for an
/// empty body.
std::string error_detail(const std::string& body);

}  // namespace berth::oci
