#include "runtime/base/text.hh"
#include "runtime/oci/layer/gzip.hh"

#ifdef BERTH_ISAL
#include <isa-l.h>
#endif
#include <zlib.h>

namespace berth::oci {

std::vector<GzipEngine> gzip_engines() {
#ifdef BERTH_ISAL
    return {GzipEngine::isal, GzipEngine::zlib};
#else
    return {GzipEngine::zlib};
#endif
}

GzipEngine best_gzip_engine() {
#if defined BERTH_ISAL && defined __x86_64__
    // Without these instructions ISA-L falls back to plain C, in which zlib is the better program.
    return __builtin_cpu_supports("sse4.2") ? GzipEngine::isal : GzipEngine::zlib;
#else
    return gzip_engines().front();
#endif
}

std::string name_of(GzipEngine engine) {
#ifdef BERTH_ISAL
    if (engine == GzipEngine::isal) return cat("ISA-L ", ISAL_MAJOR_VERSION, ".", ISAL_MINOR_VERSION);
#endif
    return engine == GzipEngine::isal ? "ISA-L, which this build lacks" : cat("zlib ", ::zlibVersion());
}

std::unique_ptr<Decompressor> make_gzip_decompressor(Sink sink, GzipEngine engine) {
#ifdef BERTH_ISAL
    if (engine == GzipEngine::isal) return make_isal_decompressor(std::move(sink));
#endif
    (void)engine;
    return make_zlib_decompressor(std::move(sink));
}

}  // namespace berth::oci
