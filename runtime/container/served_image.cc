#include "runtime/container/served_image.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "runtime/base/command.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/mount/rootfs/upper.hh"
#include "runtime/mount/rootfs/upper_layer.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/processes.hh"
#include "runtime/sandbox/seccomp.hh"
#include "runtime/squash/index/find.hh"
#include "runtime/squash/read/data.hh"

namespace berth {

namespace {

mount::ServerOptions server_options(const plan::Plan& plan, const plan::Site& site,
                                    std::shared_ptr<mount::Preload> preload) {
    mount::ServerOptions options;
    options.uid = plan.identity.inside_uid;
    options.gid = plan.identity.inside_gid;
    options.threads = site.mount.threads;
    options.busy_poll = std::chrono::microseconds(site.mount.busy_poll);
    options.cache_bytes = site.mount.cache_size;
    options.preload = std::move(preload);
    options.confine = [] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
    };
    return options;
}

/// By the program that the image says. What it may do is what a task may.
mount::ProgramServer start_other_server(const plan::Plan& plan, const FlatImage& flat, const std::string& filter,
                                        int staging) {
    mount::ProgramServerOptions options{
        plan.identity.inside_uid, plan.identity.inside_gid, flat.file.get(), flat.offset, {}};
    options.confine = [&] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
        sandbox::install_filter(filter);
    };
    return mount::start_program_server(flat.program, options, staging, "lower");
}

/// The inode of a regular file; 0 when the path leads to none.
uint32_t file_at(const squash::Index& index, const std::string& path) try {
    uint32_t number = path.empty() ? 0 : squash::find_path(index, path);
    auto inode = index.inode(number);
    return inode && S_ISREG(inode->mode) ? number : 0;
} catch (const Error&) {
    // A damaged index: who runs the program is told.
    return 0;
}

/// The path in the image of what execvp() would execute for `name`; empty when there is none. What the plan mounts over
/// the image is not looked at.
std::string program_at(const squash::Index& index, const plan::Plan& plan, const std::string& name) {
    if (name.find('/') != name.npos) return name[0] == '/' ? name : cat(plan.workdir, "/", name);
    for (const std::string& folder : split(name.empty() ? "" : value_in(plan.environment.image, "PATH"), ':'))
        if (std::string path = cat(folder, "/", name); file_at(index, path) != 0) return path;
    return {};
}

/// Reads files of the image before it is mounted.
squash::DataReader reader_of(const squash::Index& index, const std::vector<Fd>& layers) {
    std::vector<Fd> files;
    for (const Fd& layer : layers) {
        files.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!files.back()) throw SysError("opening a layer once more");
    }
    return squash::DataReader(std::move(files), index.layers(), 1 << 20);
}

std::string content_of(squash::DataReader& reader, const squash::FileData& data, const std::string& path) {
    std::string out(data.size, '\0');
    if (reader.read(data, 0, out.data(), out.size()) != static_cast<long>(out.size()))
        throw SysError(cat("reading ", printable(path, 4096), " of the image"), EIO);
    return out;
}

}  // namespace

ServedImage::ServedImage(ContainerImage&& image, const plan::Plan& plan, const std::string& program)
    : index_(std::make_shared<const squash::Index>(std::move(image.index))),
      layers_(std::move(image.layers)),
      flat_(std::move(image.flat)) {
    if (flat_.file) return;
    program_ = program_at(*index_, plan, program);
    inode_ = file_at(*index_, program_);
    if (inode_ != 0) preload_ = std::make_shared<mount::Preload>(inode_);
}

void ServedImage::settle() {
    if (std::exchange(preloading_, false)) preload_->wait();
}

std::set<size_t> ServedImage::prepare_upper(int upper, const std::vector<plan::Edit>& edits,
                                            const std::vector<mount::Source>& sources, bool saved) const {
    squash::DataReader reader = reader_of(*index_, layers_);
    mount::UpperFacts facts{*index_, sources, saved, [&](const squash::FileData& data, const std::string& path) {
                                return content_of(reader, data, path);
                            }};
    mount::UpperLayer layer = mount::upper_layer(edits, facts);
    mount::write_upper(layer, *index_, upper);
    return std::move(layer.done);
}

mount::ProgramServer ServedImage::show(const plan::Plan& plan, const plan::Site& site, const std::string& filter,
                                       int staging) {
    if (flat_.file) return start_other_server(plan, flat_, filter, staging);
    mount::start_server(index_, layers_, server_options(plan, site, preload_),
                        mount::staging_directory(staging, "lower").get());
    begin_preload(mount::staging_directory(staging, "lower").get());
    return {};
}

/// This process is the first to look anything up.
void ServedImage::begin_preload(int root) {
    if (!preload_) return;
    try {
        Fd program = sys::find_in_root(root, program_, O_PATH);
        preloading_ = program && sys::stat_of(program.get(), program_).st_ino == inode_;
    } catch (const Error&) {
        // Who runs it finds out what is wrong.
    }
    preload_->begin(preloading_);
}

}  // namespace berth
