// The platform of this machine in the words of the image specification (GOOS, GOARCH, GOARM).
#pragma once
#include <string_view>

namespace berth::plan {

#if defined(__x86_64__)
inline constexpr std::string_view machine_architecture = "amd64";
inline constexpr std::string_view machine_variant = "v1";  ///< the least that an image for it may ask for
#elif defined(__aarch64__)
inline constexpr std::string_view machine_architecture = "arm64";
inline constexpr std::string_view machine_variant = "v8";
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
inline constexpr std::string_view machine_architecture = "ppc64le";
inline constexpr std::string_view machine_variant = "";
#elif defined(__s390x__)
inline constexpr std::string_view machine_architecture = "s390x";
inline constexpr std::string_view machine_variant = "";
#elif defined(__riscv)
inline constexpr std::string_view machine_architecture = "riscv64";
inline constexpr std::string_view machine_variant = "";
#else
#error "name this machine's architecture in the words of the image specification"
#endif

}  // namespace berth::plan
