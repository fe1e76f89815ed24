// Tar archives with right checksums. The first byte chooses the size of the pieces.
#include <string>

#include "tests/hostile/layer_target.hh"
#include "tests/hostile/tar_target.hh"

namespace {

void run(std::string_view input) {
    size_t piece = 1 + 37 * size_t{berth::hostile::take_byte(input)};
    std::string tar = berth::hostile::with_checksums(input);
    berth::hostile::convert([&](berth::oci::Decompressor& decompressor) {
        for (std::string_view rest = tar; !rest.empty();) {
            std::string_view part = berth::hostile::take(rest, piece);
            decompressor.feed(part);
        }
    });
}

const berth::hostile::Registration registration("tar", run);

}  // namespace
