#include "runtime/images/squashfs_mounts.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/file.hh"
#include "runtime/images/kept_index.hh"
#include "runtime/mount/rootfs/binds.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/image_tree.hh"

namespace berth {

namespace {

/// Device and inode.
using Identity = std::pair<uint64_t, uint64_t>;

/// Empty for an optional one that is missing.
Fd open_source(const plan::Mount& mount) {
    Fd file = sys::try_open_at(AT_FDCWD, mount.source, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    int number = errno;
    bool missing = !file && (number == ENOENT || number == ENOTDIR);
    if (file || (missing && mount.optional)) return file;
    if (missing) throw Error("the source path does not exist on this node");
    throw SysError("opening the source", number);
}

Identity identity_of(int file) {
    struct stat st = sys::stat_of(file, "the source");
    if (S_ISDIR(st.st_mode)) throw Error("it is a directory; leave the flag squashfs out");
    if (!S_ISREG(st.st_mode)) throw Error("it is no regular file");
    return {st.st_dev, st.st_ino};
}

SquashfsFile read_file(Fd file, const std::string& path, const store::Store* store) {
    auto stamp = squash::stamp_of(file.get());
    if (!stamp) throw SysError("asking when it was changed");
    auto build = [&] {
        squash::ImageTree read = tree_of_image_file(file.get(), path);
        squash::put_below(read.tree, squashfs_top);
        return squash::build_index(read.tree, read.layers, {});
    };
    SquashfsFile out{kept_index(file.get(), IndexOf::data, store, build), {}, {}};
    if (!squash::has_stamp(file.get(), *stamp))
        throw Error("it was changed while its tables were read; start again when nobody writes to it");
    size_t count = out.index.layers().size();
    out.stamps.assign(count, *stamp);
    out.layers = squash::for_each_layer(std::move(file), count);
    return out;
}

class Opener {
  public:
    Opener(const plan::Plan& plan, const plan::Site& site) : plan_(plan), site_(site) {}

    void add(size_t position, const plan::Mount& mount) {
        const plan::Origin& origin = plan_.edits[position].origin;
        Fd file;
        naming(mount, origin, [&] { file = open_source(mount); });
        if (!file) return;
        // Whatever its path means by now, and before it is looked at.
        if (plan::is_judged(plan_.sources, plan_.edits[position]))
            plan::check_source(plan_.sources, mount, origin, sys::opened_path(file.get()));
        naming(mount, origin, [&] {
            if (origin.chooser() != plan::Origin::Chooser::site) check_owner_of_file(site_, mount.source, file.get());
            auto [known, is_new] = known_.try_emplace(identity_of(file.get()), out_.files.size());
            if (mount.layer && squash::is_sif(file.get()))
                throw Error("it is a SIF file, whose own overlays go with it alone; write a squashfs file or a folder");
            if (is_new) out_.files.push_back(read_file(std::move(file), mount.source, store()));
            if (mount.layer) out_.files[known->second].is_layer = true;
            out_.file_of[position] = known->second;
        });
    }

    SquashfsMounts result() { return std::move(out_); }

  private:
    /// Looked for where there are such files at all.
    const store::Store* store() {
        if (!has_looked_) store_ = store_of_indexes(site_, caller_of_this_process());
        has_looked_ = true;
        return store_ ? &*store_ : nullptr;
    }

    static void naming(const plan::Mount& mount, const plan::Origin& origin, const std::function<void()>& act) try {
        act();
    } catch (const Error& error) {
        throw Error(cat(mount::described(mount, origin), ": ", error.what()));
    }

    const plan::Plan& plan_;
    const plan::Site& site_;
    SquashfsMounts out_;
    std::map<Identity, size_t> known_;
    std::optional<store::Store> store_;
    bool has_looked_ = false;
};

}  // namespace

SquashfsMounts open_squashfs_mounts(const plan::Plan& plan, const plan::Site& site) {
    Opener opener(plan, site);
    for (size_t i = 0; i < plan.edits.size(); ++i)
        if (const auto* mount = std::get_if<plan::Mount>(&plan.edits[i].action);
            mount && mount->kind == plan::Mount::Kind::squashfs)
            opener.add(i, *mount);
    return opener.result();
}

}  // namespace berth
