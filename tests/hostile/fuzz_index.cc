// Index files. The hash of the header and the size are put right: they guard against damage, not against malice.
#include <sys/mman.h>

#include "runtime/base/sys.hh"
#include "runtime/squash/index/index_format.hh"
#include "tests/fixtures/squash_walk.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    std::string bytes(input);
    squash::format::Header header{};
    if (bytes.size() >= sizeof header) {
        std::memcpy(&header, bytes.data(), sizeof header);
        header.file_size = bytes.size();
        header.header_hash = squash::format::hash_of(header);
        std::memcpy(bytes.data(), &header, sizeof header);
    }
    hostile::refusing([&] {
        auto index = squash::Index::from_bytes(bytes);
        // The layers are an empty file each: what is read of them is never there.
        std::vector<Fd> files;
        for (size_t i = 0; i < index.layers().size() && i < 16; ++i)
            files.emplace_back(::memfd_create("layer", MFD_CLOEXEC));
        std::vector<squash::LayerInfo> layers(index.layers().begin(),
                                              index.layers().begin() + static_cast<ptrdiff_t>(files.size()));
        squash::DataReader reader(std::move(files), layers, 1 << 20);
        squash::test::walk_everything(index, &reader, 1 << 18);
    });
}

const hostile::Registration registration("index", run);

}  // namespace
