// Images as directories, for sites that set mount.engine to "unpack".
#pragma once
#include <string>

#include "runtime/config/words.hh"
#include "runtime/images/opened.hh"
#include "runtime/store/store.hh"

namespace berth {

/// Makes `opened` the directory in `store` that it is extracted to, and extracts it there first if nobody has: one
/// process does it while the others wait. `modes` are those that containers are to show, and `what` names it in
/// messages. Throws Error.
void use_extracted(OpenedImage& opened, const store::Store& store, plan::ImageModes modes, const std::string& what,
                   const PullWatch& watch);

}  // namespace berth
