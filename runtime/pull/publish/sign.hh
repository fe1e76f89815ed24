// Signs an image in its registry, as cosign and skopeo do with a key: a payload attached at the tag sha256-HEX.sig.
#pragma once
#include <string>
#include <vector>

#include "runtime/oci/registry/options.hh"
#include "runtime/request/reference.hh"
#include "runtime/trust/signature/key.hh"

namespace berth::pull {

/// The digests that are signed, some of them perhaps since an earlier call with the same key: what the reference means
/// and, where that is an image index, each manifest in it, since that is what podman and berth look at. Throws Error.
std::vector<Digest> sign_image(const plan::Reference& reference, const trust::PrivateKey& key,
                               const oci::RegistryOptions& options);

}  // namespace berth::pull
