// Lists the files of a squashfs or SIF file, by the public functions of runtime/squash: list_squashfs FILE.
//
// A file has a tree (read_image_file), of which an index is made (build_index), whose answers need no memory of their
// own: the file server of a container answers from one.
#include <fcntl.h>

#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/image_tree.hh"

using namespace berth;

namespace {

/// MODE SIZE PATH, and what a link says; directories with what is in them.
void list(const squash::Index& index, uint32_t directory, const std::string& path) {
    for (uint32_t position = 0; position < index.entry_count(directory); ++position) {
        squash::Entry entry = index.entry(directory, position).value();
        squash::InodeView inode = index.inode(entry.inode).value();
        std::string name = cat(path, '/', entry.name);
        auto target = index.symlink_target(entry.inode);
        std::printf("%06o %8llu %s%s\n", inode.mode, static_cast<unsigned long long>(inode.size),
                    printable(name, 4096).c_str(), target ? cat(" -> ", printable(*target, 4096)).c_str() : "");
        list(index, entry.inode, name);
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) throw Error("usage: list_squashfs FILE");
    Fd file = sys::open_file(argv[1], O_RDONLY);
    // Of a file that anybody may have made: limits, and every offset is checked.
    squash::ImageTree read = squash::read_image_file(file.get(), argv[1], {.depth = 64});
    constexpr uint32_t root = 1;
    list(squash::Index::from_bytes(squash::build_index(read.tree, read.layers, {})), root, "");
    return 0;
} catch (const Error& error) {
    std::fprintf(stderr, "list_squashfs: %s\n", error.what());
    return error.exit_code();
}
