// Squashfs and SIF files of anybody: what a start does with them, up to the bytes of the files.
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/format/image_file.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/fixtures/squash_walk.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void serve(Fd file) {
    std::vector<squash::LayerInfo> layers(1);
    squash::Extent place = squash::find_squashfs(file.get(), "image");
    if (place.size == 0) squash::read_config(file.get(), "image");
    squash::TreeLimits limits{.inodes = 20'000, .depth = 64, .metadata_bytes = 16 << 20};
    std::vector<squash::Tree> trees;
    trees.push_back(squash::read_tree(file.get(), "image", 0, layers[0], limits, place));
    squash::Tree merged = squash::merge(std::move(trees));
    auto index = squash::Index::from_bytes(squash::build_index(merged, layers, {}));
    std::vector<Fd> files;
    files.push_back(std::move(file));
    squash::DataReader reader(std::move(files), layers, 1 << 20);
    squash::test::walk_everything(index, &reader, 1 << 18);
}

void run(std::string_view input) {
    Fd file(::memfd_create("image", MFD_CLOEXEC));
    sys::write_all(file.get(), input, "image");
    hostile::refusing([&] { serve(std::move(file)); });
}

const hostile::Registration registration("squashfs", run);

}  // namespace
