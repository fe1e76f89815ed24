// Mounts as Apptainer writes them. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/mount_request.hh"

namespace berth::apptainer {

struct Bind {
    plan::MountRequest mount;  ///< its source as written
    bool nested = true;        ///< named in APPTAINER_BIND, for an apptainer in the container
};

/// SRC[:DST[:ro|rw|image-src=/]][,...] of --bind; "\:" and "\," stand for the characters. Throws Error.
std::vector<Bind> binds_of(std::string_view text);

/// type=bind,source=SRC,destination=DST[,ro][,image-src=/][,nonested] of --mount, one a line. Throws Error.
std::vector<Bind> binds_of_mount(std::string_view text);

}  // namespace berth::apptainer
