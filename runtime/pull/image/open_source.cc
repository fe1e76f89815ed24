#include "runtime/pull/image/open_source.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/source/local.hh"
#include "runtime/store/file_record.hh"

namespace berth::pull {

namespace {

using Kind = plan::Reference::Kind;

bool is_daemon(Kind kind) { return kind == Kind::dockerd || kind == Kind::podman; }

oci::Daemon daemon_of(Kind kind, const Options& options) {
    if (kind == Kind::dockerd) return {"docker", options.docker_socket};
    return {"podman", options.podman_socket.empty() ? cat("/run/user/", ::geteuid(), "/podman/podman.sock")
                                                    : options.podman_socket};
}

oci::Scratch scratch_in(const store::Store& store) {
    return [&store] {
        store::NewFile file = store.new_file();
        Fd copy(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
        if (!copy) throw SysError("making a temporary file");
        return copy;
    };
}

}  // namespace

plan::Reference as_archive(const store::Store& store, plan::Reference file, const std::string& kind, uint64_t memory) {
    if (kind == "oci-archive" || kind == "docker-archive" || kind == "tar") {
        file.kind = kind == "oci-archive" ? Kind::oci_archive : Kind::docker_archive;
        return file;
    }
    // Compressed: what it is can be seen only inside.
    std::string what = cat("image ", printable(file.path, 1024));
    oci::LargeWindows windows(memory);
    auto files =
        oci::open_archive(oci::open_archive_file(file.path, what), what, scratch_in(store), {}, &windows);
    bool is_oci = !files->root_file_system() && files->find("oci-layout") && !files->find("manifest.json");
    file.kind = is_oci ? Kind::oci_archive : Kind::docker_archive;
    return file;
}

plan::Reference record_of(const plan::Reference& reference, const Options& options, Meter& meter) {
    if (reference.kind == Kind::registry) return reference;
    if (is_daemon(reference.kind)) {
        oci::Daemon daemon = daemon_of(reference.kind, options);
        meter.begin(Phase::asking, cat("asking ", daemon.program, " about image ", printable(reference.text(), 1024)));
        return store::id_record(oci::find_in_daemon(daemon, reference));
    }
    try {
        return store::file_record(reference).reference;
    } catch (const SysError& error) {
        if (reference.kind != Kind::oci || error.number() != ENOENT) throw;
        // What a folder is that is no layout tells the reader of layouts.
        std::string what = cat("image ", printable(reference.text(), 1024));
        (void)oci::make_oci_source(oci::open_folder(reference.path, what), reference.selector, what)->resolve();
        throw;
    }
}

bool is_still_true(const plan::Reference& reference, const plan::Reference& record) {
    if (reference.kind == Kind::registry || is_daemon(reference.kind)) return true;
    // A change within the clock's step of the last one would leave no trace.
    constexpr int64_t settled_seconds = 2;
    store::FileRecord now = store::file_record(reference);
    return now.reference.name == record.name && now.changed + settled_seconds <= ::time(nullptr);
}

std::unique_ptr<oci::Source> open_source(const store::Store& store, const plan::Reference& reference,
                                         const plan::Reference& record, const Options& options, Meter& meter) {
    std::string what = cat("image ", printable(reference.text(), 1024));
    oci::Scratch scratch = scratch_in(store);
    auto archive = [&](Fd file) {
        meter.begin(Phase::reading, cat("reading the archive of ", what),
                    static_cast<uint64_t>(sys::stat_of(file.get(), what).st_size));
        oci::LargeWindows windows(options.limits.memory);
        return oci::open_archive(
            std::move(file), what, scratch, [&](uint64_t bytes) { meter.advance(bytes); }, &windows);
    };
    auto docker_source = [&](const oci::Files& files) {
        auto root = files.root_file_system();
        if (!root) return oci::make_docker_source(files, reference, what);
        if (!reference.selector.empty())
            throw Error(cat(what, ": is a root file system, which has no names; leave the name away"));
        if (std::string name = files.first_whiteout(); !name.empty())
            meter.warn(cat(what, ": files whose names begin with .wh. are left out, ", printable(name, 1024),
                           " is the first: layers of images say with such names what is removed"));
        meter.begin(Phase::reading, cat("reading the root file system of ", what), root->size);
        return oci::make_export_source(*root, what, [&](uint64_t bytes) { meter.advance(bytes); });
    };
    switch (reference.kind) {
        case Kind::oci:
            return oci::make_oci_source(oci::open_folder(reference.path, what), reference.selector, what);
        case Kind::oci_archive:
            return oci::make_oci_source(archive(oci::open_archive_file(reference.path, what)), reference.selector,
                                        what);
        case Kind::docker_archive:
            return docker_source(*archive(oci::open_archive_file(reference.path, what)));
        case Kind::dockerd:
        case Kind::podman: {
            // By its Id the daemon gives just this image, whatever its name means by now.
            oci::Daemon daemon = daemon_of(reference.kind, options);
            meter.begin(Phase::exporting, cat("exporting ", what, " from ", daemon.program));
            Fd file = oci::export_from_daemon(daemon, record.name, what, scratch,
                                              [&](uint64_t bytes) { meter.advance(bytes); });
            return oci::make_docker_source(*archive(std::move(file)), {}, what);
        }
        default:
            return oci::make_registry_source(reference, options.registry);
    }
}

}  // namespace berth::pull
