// Layer blobs as they come: gzip, zstd or plain, nothing repaired.
#include "tests/hostile/layer_target.hh"

namespace {

void run(std::string_view input) {
    berth::hostile::convert(
        [&](berth::oci::Decompressor& decompressor) { decompressor.feed(input); });
}

const berth::hostile::Registration registration("packed", run);

}  // namespace
