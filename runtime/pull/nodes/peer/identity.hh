// Who serves layers on this node: a key made for this step, and the certificate that TLS wants around it.
#pragma once
#include <string>

namespace berth::pull::nodes {

struct Identity {
    std::string key;          ///< PEM
    std::string certificate;  ///< PEM, signed by the key itself
    std::string pin;          ///< "sha256//BASE64" of the public key, as CURLOPT_PINNEDPUBLICKEY takes it
};

/// A new one (P-256), valid for thirty days: nobody looks at its dates, peers compare the key. Throws Error when
/// OpenSSL fails.
Identity make_identity();

/// What a node of the step shows to be served: derived from the step's secret, which is not told.
std::string client_token(const std::string& secret);

}  // namespace berth::pull::nodes
