// Tar archives with right checksums: without them few changes would get past the first header. The first byte chooses the size of the pieces.
#include <string>

#include "tests/hostile/layer_target.hh"

namespace {

constexpr size_t block = 512, checksum_at = 148, checksum_size = 8, magic_at = 257;

void repair_checksums(std::string& tar) {
    for (size_t at = 0; at + block <= tar.size(); at += block) {
        if (tar.compare(at + magic_at, 5, "ustar") != 0) continue;
        tar.replace(at + checksum_at, checksum_size, checksum_size, ' ');
        unsigned sum = 0;
        for (size_t i = at; i < at + block; ++i) sum += static_cast<unsigned char>(tar[i]);
        for (size_t digit = 6; digit-- > 0; sum /= 8) tar[at + checksum_at + digit] = static_cast<char>('0' + sum % 8);
        tar[at + checksum_at + 6] = '\0';
    }
}

void run(std::string_view input) {
    size_t piece = 1 + 37 * size_t{berth::hostile::take_byte(input)};
    std::string tar(input);
    repair_checksums(tar);
    berth::hostile::convert([&](berth::image::Decompressor& decompressor) {
        for (std::string_view rest = tar; !rest.empty();) {
            std::string_view part = berth::hostile::take(rest, piece);
            decompressor.feed(part.data(), part.size());
        }
    });
}

const berth::hostile::Registration registration("tar", run);

}  // namespace
