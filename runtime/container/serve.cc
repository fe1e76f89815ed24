#include "runtime/container/serve.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "runtime/base/cpus.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/data_sweep.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/mount/rootfs/upper.hh"
#include "runtime/mount/rootfs/upper_layer.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/seccomp.hh"
#include "runtime/squash/read/data.hh"

namespace berth {

namespace {

/// Files of an image from which on a process that guesses is worth its start, for which short programs pay, too.
constexpr uint32_t worth_guessing = 20'000;

mount::ServerOptions server_options(const plan::Plan& plan, const plan::Site& site) {
    mount::ServerOptions options;
    options.uid = plan.identity.inside_uid;
    options.gid = plan.identity.inside_gid;
    options.modes = site.mount.modes;
    options.threads = site.mount.threads;
    options.busy_poll = std::chrono::microseconds(site.mount.busy_poll);
    options.cache_bytes = site.mount.cache_size;
    options.confine = [] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
    };
    return options;
}

/// Reads files of the image before it is mounted.
squash::DataReader reader_of(const ContainerImage& image) {
    std::vector<Fd> files;
    for (const Fd& layer : image.layers) {
        files.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!files.back()) throw SysError("opening a layer once more");
    }
    return squash::DataReader(std::move(files), image.index.layers(), 1 << 20, image.coming, {.sums = image.sums});
}

Fd new_folder(int parent, const std::string& name) {
    if (::mkdirat(parent, name.c_str(), 0755) != 0) throw SysError(cat("creating the staging directory ", name));
    return mount::staging_directory(parent, name);
}

std::string content_of(squash::DataReader& reader, const squash::FileData& data, const std::string& path) {
    std::string out(data.size, '\0');
    if (reader.read(data, 0, out) != static_cast<long>(out.size()))
        throw SysError(cat("reading ", printable(path, 4096), " of the image"), EIO);
    return out;
}

/// What its process does with unpacked files, besides reading ahead.
mount::HotWork hot_work(const ContainerImage& image, const HotImage& hot) {
    mount::HotWork out;
    if (hot.folder) {
        out.folder = hot.folder->lease.get();
        out.check = [&hot] {
            std::string changed = store::hot_change(hot.folder->lease.get());
            if (!changed.empty())
                store::give_up_hot(hot.hot.get(), hot.folder->name,
                                   cat("unpacked files given up: ", printable(changed, 200), " has changed"));
        };
    }
    out.write = [&image, &hot](const squash::PrefetchList& list, const std::function<bool(uint64_t)>& goes_on) {
        squash::DataReader reader = reader_of(image);
        store::write_hot(hot.order, image.index, reader, list, goes_on);
    };
    out.descriptors = {hot.hot.get(), out.folder};
    for (const Fd& layer : image.layers) out.descriptors.push_back(layer.get());
    return out;
}

}  // namespace

std::set<size_t> prepare_upper(const ContainerImage& image, int upper, const std::vector<plan::Edit>& edits,
                               const std::vector<mount::Source>& sources, plan::ImageModes modes, bool saved) {
    squash::DataReader reader = reader_of(image);
    mount::UpperFacts facts{image.index, sources, saved, [&](const squash::FileData& data, const std::string& path) {
                                return content_of(reader, data, path);
                            }};
    mount::UpperLayer layer = mount::upper_layer(edits, facts);
    mount::write_upper(layer, image.index, modes, upper);
    return std::move(layer.done);
}

Pid serve_image(ContainerImage&& image, const plan::Plan& plan, const plan::Site& site, int staging,
                const HotImage& hot) {
    mount::IdleProcess prefetcher;
    mount::ServerOptions options = server_options(plan, site);
    // Where there is one CPU, it would only take that from the program.
    bool guesses = !image.reads.known && image.reads.log && site.mount.prefetch_guess &&
                   image.index.inode_count() >= worth_guessing;
    if ((image.reads.known || guesses) && usable_cpus() > 1)
        prefetcher = mount::start_prefetcher(image.index, image.reads.known, options.confine,
                                             hot.hot ? hot_work(image, hot) : mount::HotWork());
    options.reads = image.reads.log;
    options.prefetcher = prefetcher.channel.get();
    if (guesses && prefetcher.process) options.guesser = prefetcher.process.get();
    options.coming = std::move(image.coming);
    options.guards.sums = std::move(image.sums);
    // That is for the start alone, and looks at what the server's threads do not have open.
    options.coming.interrupted = {};
    mount::start_server(std::make_shared<const squash::Index>(std::move(image.index)), image.layers, options,
                        mount::staging_directory(staging, "lower").get());
    mount::show_mount(prefetcher, mount::staging_directory(staging, "lower").get());
    // The server has the channel in its own table.
    return std::move(prefetcher.process);
}

namespace {

/// What a server shows of a squashfs file: as it is, and with an overlay over it.
struct ServedFile {
    Fd folder, plain, shown;
};

/// Serves it in `folder`; the result is its content, as it is.
Fd serve_file(SquashfsFile& file, mount::IdleProcess& sweep, int folder, const plan::Plan& plan,
              const plan::Site& site) {
    mount::ServerOptions options = server_options(plan, site);
    options.guards.stamps = file.stamps;
    options.shows_marks = file.is_layer;
    options.kind = file.is_layer ? mount::ServedKind::image : mount::ServedKind::data;
    options.prefetcher = sweep.channel.get();
    if (sweep.process) options.sweeper = sweep.process.get();
    mount::start_server(std::make_shared<const squash::Index>(std::move(file.index)), file.layers, options,
                        new_folder(folder, "lower").get());
    mount::show_mount(sweep, mount::staging_directory(folder, "lower").get());
    sweep.channel.reset();
    return sys::open_at(folder, cat("lower/", squashfs_top), O_PATH | O_DIRECTORY);
}

}  // namespace

std::vector<mount::IdleProcess> start_data_sweeps(const SquashfsMounts& mounts, const plan::Plan& plan,
                                                 const plan::Site& site) {
    std::vector<mount::IdleProcess> out(mounts.files.size());
    if (!site.mount.prefetch || !site.mount.prefetch_guess || usable_cpus() < 2) return out;
    for (size_t i = 0; i < out.size(); ++i)
        if (const SquashfsFile& file = mounts.files[i];
            !file.is_layer && file.index.inode_count() >= mount::worth_sweeping)
            out[i] = mount::start_data_sweep(file.index, server_options(plan, site).confine);
    return out;
}

void serve_squashfs(SquashfsMounts&& mounts, std::vector<mount::IdleProcess>& sweeps, const plan::Plan& plan,
                    const plan::Site& site, bool small_inode_numbers, int staging,
                    std::vector<mount::Source>& sources) {
    std::vector<ServedFile> served(mounts.files.size());
    for (const auto& [position, number] : mounts.file_of) {
        const plan::Edit& edit = plan.edits[position];
        const auto& mount = std::get<plan::Mount>(edit.action);
        ServedFile& file = served[number];
        try {
            if (!file.folder) {
                file.folder = new_folder(staging, cat("squashfs", number));
                file.plain = serve_file(mounts.files[number], sweeps[number], file.folder.get(), plan, site);
            }
            if (!mount.layer && !file.shown) {
                mount::make_read_only_overlay(file.folder.get(), small_inode_numbers);
                file.shown = sys::open_at(file.folder.get(), cat("root/", squashfs_top), O_PATH | O_DIRECTORY);
            }
            sources[position] = mount::source_at((mount.layer ? file.plain : file.shown).get(), mount);
        } catch (const Error& error) {
            throw Error(cat(mount::described(mount, edit.origin), ": ", error.what()));
        }
    }
}

}  // namespace berth
