// A SIF file in a registry, as `apptainer push` to oras:// leaves it: an artifact whose one layer is the file. Pure.
#pragma once
#include <string>
#include <string_view>

#include "runtime/oci/descriptor.hh"

namespace berth::oci {

inline constexpr std::string_view sif_layer_type = "application/vnd.sylabs.sif.layer.v1.sif";
/// That of the first releases, spelled so.
inline constexpr std::string_view early_sif_layer_type = "appliciation/vnd.sylabs.sif.layer.tar";

/// The file in the artifact with this manifest. Throws Error naming `what` for anything else, an image among it.
Descriptor parse_sif_artifact(std::string_view manifest, const std::string& what);

}  // namespace berth::oci
