#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/images/file.hh"
#include "runtime/pull/transfer/flat.hh"
#include "runtime/pull/transfer/stored.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/read/plain_tree.hh"

namespace berth::pull {

namespace {

struct FlattenArguments {
    std::string store, image, output;
    unsigned uid = 0, gid = 0;
};

/// A tree and what its files are in.
struct Source {
    squash::Tree tree;
    std::vector<squash::LayerInfo> infos;
    std::vector<Fd> layers;
};

Source stored(const store::Store& store, const Digest& digest) {
    std::string what = cat("image ", digest);
    std::vector<squash::LayerInfo> infos;
    oci::ImageDescription image = describe(store, digest, what);
    Source out{merged_tree(store, image.diff_ids, what, infos), std::move(infos), {}};
    for (const Digest& diff_id : image.diff_ids) out.layers.push_back(store.open_layer(diff_id));
    return out;
}

/// Whiteouts are names like others there, as when berth serves the file.
Source of_input() {
    Fd file(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!file) throw SysError("opening the image file");
    squash::ImageTree read = tree_of_image_file(file.get(), "the image file");
    size_t count = read.layers.size();
    return {std::move(read.tree), std::move(read.layers), squash::for_each_layer(std::move(file), count)};
}

void report(uint64_t bytes, uint64_t total) {
    std::printf("progress %llu %llu\n", static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(total));
    std::fflush(stdout);
}

void flatten(const FlattenArguments& arguments) {
    Source source =
        arguments.image.empty() ? of_input() : stored(store::Store::open(arguments.store), Digest(arguments.image));
    squash::make_plain(source.tree, arguments.uid, arguments.gid);
    Fd output = sys::open_file(arguments.output, O_RDWR | O_CREAT | O_EXCL, 0600);
    squash::flatten(source.tree, source.layers, source.infos, {}, output.get(), printable(arguments.output, 4096),
                    report);
}

}  // namespace

int flatten_command(int argc, char** argv) {
    CommandLine line("Write an image as one squashfs file, with one owner for all files.", "berth-pull flatten");
    FlattenArguments arguments;
    line.option("--store", arguments.store, "directory of the store").required();
    line.option("--image", arguments.image,
                "digest of an image in it; without it: the image file that is the standard input");
    line.option("--uid", arguments.uid, "owner of all that is in the file").required();
    line.option("--gid", arguments.gid, "its group").required();
    line.option("--output", arguments.output, "the file to write").required();
    if (auto code = line.parse(argc, argv)) return *code;
    try {
        flatten(arguments);
        return 0;
    } catch (const Error& problem) {
        std::printf("error %s\n", problem.what());
        return problem.exit_code();
    }
}

}  // namespace berth::pull
