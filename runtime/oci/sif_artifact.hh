// A SIF file in a registry, as `apptainer push` to oras:// leaves it: an artifact whose one layer is the file. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/descriptor.hh"

namespace berth::oci {

inline constexpr std::string_view sif_layer_type = "application/vnd.sylabs.sif.layer.v1.sif";
/// That of the first releases, spelled so.
inline constexpr std::string_view early_sif_layer_type = "appliciation/vnd.sylabs.sif.layer.tar";

inline constexpr std::string_view sif_config_type = "application/vnd.sylabs.sif.config.v1+json";

/// The manifest of the artifact of a SIF file, as Apptainer writes it, to the byte: with its name and with annotations,
/// NAME=VALUE, of which the last of a name counts. Its config is artifact.hh's empty_config.
std::string make_sif_artifact(const Descriptor& file, const std::string& name,
                              const std::vector<std::string>& annotations);

/// The file in the artifact with this manifest. Throws Error naming `what` for anything else, an image among it.
Descriptor parse_sif_artifact(std::string_view manifest, const std::string& what);

}  // namespace berth::oci
