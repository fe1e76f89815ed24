#include "runtime/host/pull_program.hh"
#include "runtime/images/flat.hh"

#include <fcntl.h>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/file.hh"
#include "runtime/images/once.hh"
#include "runtime/mount/fuse/program_server.hh"
#include "runtime/squash/format/super.hh"
#include "runtime/squash/read/plain_tree.hh"
#include "runtime/store/extracted.hh"

namespace berth {

namespace {

/// An image file that needs no copy of itself.
FlatImage as_it_is(const OpenedImage& opened, const store::FlatOwner& owner, const std::string& what) {
    if (opened.digest) return {};
    int file = opened.image.layers.at(0).get();
    squash::ImageTree read = tree_of_image_file(file, what);
    if (read.layers.size() > 1 || !squash::is_plain(read.tree, owner.uid, owner.gid)) return {};
    // Other servers do not know that form.
    if (squash::has_superblock_last(file, read.place.offset)) return {};
    FlatImage out{Fd(::fcntl(file, F_DUPFD_CLOEXEC, 0)), read.place.offset, {}};
    if (!out.file) throw SysError("opening the image once more");
    return out;
}

/// Has berth-pull write the file, which alone can.
void flatten(const OpenedImage& opened, const store::Store& store, const store::FlatOwner& owner,
             const std::string& path, const std::string& work, const PullWatch& watch) {
    std::vector<std::string> arguments = {"flatten", "--store",      store.location(), "--uid", cat(owner.uid),
                                          "--gid",   cat(owner.gid), "--output",       path};
    if (opened.digest) arguments.insert(arguments.end(), {"--image", opened.digest->text()});
    Child child(pull_program(), arguments, opened.digest ? -1 : opened.image.layers.at(0).get());
    Reporter reporter(work, watch);
    std::string error;
    read_lines(child, watch, [&](const std::string& line) {
        std::vector<std::string> words = split(line, ' ');
        uint64_t done = 0, total = 0;
        if (words[0] == "error") error = printable(line.substr(6), 8192);
        if (words[0] == "progress" && words.size() == 3 && parse_number(words[1], UINT64_MAX, done) &&
            parse_number(words[2], UINT64_MAX, total))
            reporter(done, total);
        return true;
    });
    int code = child.wait();
    if (!error.empty()) throw Error(cat(work, ": ", error));
    if (code != 0) throw Error(cat(work, ": berth-pull ", silent_end(code)));
}

}  // namespace

void use_flat(OpenedImage& opened, const std::string& text, const plan::Identity& identity, const plan::Caller& caller,
              const plan::Site& site, const PullWatch& watch) {
    if (site.mount.engine != plan::MountEngine::squashfuse || !opened.image.directory.empty()) return;
    if (opened.image.sums)
        throw Error(cat("image ", printable(text, 1024),
                        ": the signature policy wants it signed, and squashfuse_ll reads the file by itself, whatever "
                        "it is by then; ask the site for mount.engine = \"berth\" or \"unpack\""));
    std::string program = mount::find_program_server(), what = cat("image ", printable(text, 1024)),
                work = cat("flattening ", what);
    store::FlatOwner owner{identity.inside_uid, identity.inside_gid};
    FlatImage& flat = opened.image.flat;
    flat = as_it_is(opened, owner, what);
    if (!flat.file) {
        store::Store store = open_store(site, caller);
        Digest key = key_in_store(opened, store);
        if (!opened.image.lease) opened.image.lease = store.lease(key);
        make_once(
            store, key, work, watch, [&] { return bool(flat.file = store::open_flat(store, key, owner)); },
            [&] {
                flat.file = store::add_flat(store, key, owner, [&](const std::string& path) {
                    flatten(opened, store, owner, path, work, watch);
                });
            });
    }
    flat.program = program;
}

}  // namespace berth
