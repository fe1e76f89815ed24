// The two programs that can unpack gzip, and the choice between them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/oci/layer/decompressor.hh"

namespace berth::oci {

enum class GzipEngine { isal, zlib };

/// Those that this build has.
std::vector<GzipEngine> gzip_engines();
/// ISA-L where it is there and the CPU has what makes it fast, else zlib.
GzipEngine best_gzip_engine();
/// With its version.
std::string name_of(GzipEngine engine);

/// gzip with any number of members, checksums verified. Both engines take and refuse the same. One that this build
/// lacks is zlib.
std::unique_ptr<Decompressor> make_gzip_decompressor(Sink sink, GzipEngine engine);

/// To be used through make_gzip_decompressor().
std::unique_ptr<Decompressor> make_isal_decompressor(Sink sink);
std::unique_ptr<Decompressor> make_zlib_decompressor(Sink sink);

}  // namespace berth::oci
