// For targets that read tar headers: without right checksums few changes of an input would get past the first one.
#pragma once
#include <string>
#include <string_view>

namespace berth::hostile {

/// The archive with the checksum of every block that has the magic of a header put right.
inline std::string with_checksums(std::string_view input) {
    constexpr size_t block = 512, checksum_at = 148, checksum_size = 8, magic_at = 257;
    std::string tar(input);
    for (size_t at = 0; at + block <= tar.size(); at += block) {
        if (tar.compare(at + magic_at, 5, "ustar") != 0) continue;
        tar.replace(at + checksum_at, checksum_size, checksum_size, ' ');
        unsigned sum = 0;
        for (size_t i = at; i < at + block; ++i) sum += static_cast<unsigned char>(tar[i]);
        for (size_t digit = 6; digit-- > 0; sum /= 8) tar[at + checksum_at + digit] = static_cast<char>('0' + sum % 8);
        tar[at + checksum_at + 6] = '\0';
    }
    return tar;
}

}  // namespace berth::hostile
