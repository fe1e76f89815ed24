// Squashfs and SIF files of anybody: what a start does with them, up to the bytes of the files.
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "runtime/squash/format/file_config.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/image_tree.hh"
#include "tests/fixtures/squash_walk.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void serve(Fd file) {
    squash::TreeLimits limits{.inodes = 20'000, .depth = 64, .metadata_bytes = 16 << 20};
    squash::ImageTree read = squash::read_image_file(file.get(), "image", limits);
    if (read.place.size == 0) squash::read_config(file.get(), "image");
    std::vector<squash::Tree> trees;
    trees.push_back(std::move(read.tree));
    squash::Tree merged = squash::merge(std::move(trees));
    auto index = squash::Index::from_bytes(squash::build_index(merged, read.layers, {}));
    squash::DataReader reader(squash::for_each_layer(std::move(file), read.layers.size()), read.layers, 1 << 20);
    squash::test::walk_everything(index, &reader, 1 << 18);
}

void run(std::string_view input) {
    Fd file(::memfd_create("image", MFD_CLOEXEC));
    sys::write_all(file.get(), input, "image");
    hostile::refusing([&] { serve(std::move(file)); });
}

const hostile::Registration registration("squashfs", run);

}  // namespace
