// What `apptainer pull` writes. Pure.
#pragma once
#include <string>

namespace berth::apptainer {

/// The name of the file that a pull of `uri` writes: NAME_TAG.sif. Throws Error for what is not pulled.
std::string file_name_of(const std::string& uri);

}  // namespace berth::apptainer
