// The cache of the dynamic loader (/etc/ld.so.cache): which libraries a root file system has, and one with more of
// them. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/edit.hh"

namespace berth {

/// The content of a cache file. Source of the format: glibc's sysdeps/generic/dl-cache.h (magic "glibc-ld.so.cache",
/// version 1.1).
struct LoaderCache {
    std::vector<plan::CachedLibrary> libraries;  ///< in the order of the file
    std::vector<std::string> hwcaps;       ///< names of glibc-hwcaps folders, which `hwcap` of a library counts
    bool operator==(const LoaderCache&) const = default;
};

/// The flags of libraries of this machine's architecture (0x0303 on x86-64), and of 32-bit ones beside them.
int32_t loader_flags();
inline constexpr int32_t loader_flags_32bit = 0x0003;

/// Reads a cache file, one with a part of the old format in front of it too. Throws Error naming `what` for anything
/// else, or when its texts are more than 64 MiB together.
LoaderCache parse_loader_cache(std::string_view bytes, const std::string& what);

/// The bytes of a cache file of little-endian machines, with the libraries in the loader's order.
std::string loader_cache_bytes(LoaderCache cache);

/// Adds `libraries`; what has the name and the kind of one of them is left out.
void add_libraries(LoaderCache& cache, const std::vector<plan::CachedLibrary>& libraries);

/// How the loader compares names: as bytes, but runs of digits as numbers.
int compare_library_names(std::string_view one, std::string_view other);

}  // namespace berth
