// The modes that a container shows of its image's objects (mount.modes).
#pragma once
#include <sys/stat.h>

#include <cstdint>

#include "runtime/config/words.hh"

namespace berth::squash {

/// What a container shows for `mode`, type and permission bits of an image. Images of Red Hat's kind count on a root
/// that no mode stops (/usr/bin 0555, /etc/shadow 0000). In a container everything belongs to one ordinary user, who
/// could change the modes as well, so no right is gained.
inline uint32_t shown_mode(uint32_t mode, plan::ImageModes modes) {
    if (modes == plan::ImageModes::image || S_ISLNK(mode)) return mode;
    if (S_ISDIR(mode)) return mode | S_IRWXU;
    return mode | S_IRUSR | ((mode & 0111) != 0 ? S_IXUSR : 0U);
}

}  // namespace berth::squash
