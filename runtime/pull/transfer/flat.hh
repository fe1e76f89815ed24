// Images as one squashfs file in the store, for a file server that shows it as it is (mount.engine).
#pragma once

namespace berth::pull {

/// `berth-pull flatten`, which `berth` starts: writes a stored image, or the image file that is its standard input, to
/// a new file. Reports on standard output: `progress BYTES TOTAL`, `error TEXT`.
int flatten_command(int argc, char** argv);

}  // namespace berth::pull
