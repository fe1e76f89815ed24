// SIF files of registries: oras://REGISTRY/NAME[:TAG][@DIGEST].
#pragma once
#include <string>
#include <vector>

#include "runtime/pull/image/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// Brings the SIF file that `reference` means into the store (store::sif_path()) and records its use; the digest of its
/// manifest. By options.policy nothing is asked where it is here already, and a registry that is down stops nobody who
/// has it. Throws Error.
Digest bring_sif(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter);

/// Writes it to `path`, byte for byte; the digest of its manifest. The file appears whole and durable, or not at all.
/// Throws Error, also when it exists already and `force` is not set.
Digest save_sif(const plan::Reference& reference, const std::string& path, bool force, const Options& options,
                Meter& meter);

struct PushedSif {
    Digest digest;   ///< of the manifest
    bool is_new = true;  ///< the registry did not have the file
};

/// Brings the SIF file at `path` to the registry as the artifact that Apptainer and ORAS read, under the reference's
/// tag, which comes last. `annotations` are NAME=VALUE. The same file is the same artifact each time: when it was made
/// is what its labels say, or its header. Throws Error, also when the file is none.
PushedSif push_sif(const std::string& path, const plan::Reference& reference, std::vector<std::string> annotations,
                   const oci::RegistryOptions& options, Meter& meter);

}  // namespace berth::pull
