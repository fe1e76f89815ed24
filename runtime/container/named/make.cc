#include "runtime/container/named/make.hh"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/open.hh"
#include "runtime/plan/policy.hh"
#include "runtime/request/reference.hh"

namespace berth {

namespace {

constexpr const char* copy_name = "image";
constexpr size_t copied_at_once = 8 << 20;

void copy_bytes(int from, int to, const std::string& what) {
    if (::ioctl(to, FICLONE, from) == 0) return;
    for (;;) {
        ssize_t sent = sys::uninterrupted([&] { return ::sendfile(to, from, nullptr, copied_at_once); });
        if (sent < 0) throw SysError(what);
        if (sent == 0) return;
    }
}

/// Into the container's folder, which is the descriptor `folder`, and durably.
void copy_image(const std::string& path, int folder) {
    std::string what = cat("copying the image ", printable(path, 4096), " for a container");
    Fd from = sys::open_file(path, O_RDONLY);
    Fd to = sys::open_at(folder, copy_name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    copy_bytes(from.get(), to.get(), what);
    if (!sys::synced(to.get())) throw SysError(what);
}

bool is_file(const std::string& path) {
    return !path.empty() && S_ISREG(sys::stat_of(sys::open_file(path, O_PATH).get(), printable(path, 4096)).st_mode);
}

}  // namespace

plan::ContainerRecord record_of(const plan::Request& request, const OpenedImage& opened, const plan::Caller& caller,
                                const plan::Site& site) {
    plan::ContainerRecord out = berth::record_of(*request.image, opened, caller);
    if (!opened.digest)
        out.identity = file_identity(out.image_file);
    else if (auto whole = open_store(site, caller).image_of(*opened.digest))
        out.digest = whole->text();
    out.created = std::time(nullptr);
    out.options = request;
    return out;
}

void make_container(const ContainerFolder& folder, const std::string& name, const plan::Request& request,
                    const OpenedImage& opened, const plan::Caller& caller, const plan::Site& site,
                    const enroot::DataPath& data_path) {
    Lock lock = folder.lock(name);
    if (folder.find(name))
        throw Error(cat("making container ", printable(name),
                        ": there is one of that name; remove it, or choose another name"));
    plan::ContainerRecord record = record_of(request, opened, caller, site);
    bool copied = plan::allows_all_files(site) && is_file(record.image_file);
    folder.create(name, record, [&](int directory) {
        note_data_path(directory, data_path);
        if (!copied) return;
        copy_image(record.image_file, directory);
        record.image_file = cat(folder.path_of(name), "/", copy_name);
        record.identity = file_identity(record.image_file);
    });
    if (!record.digest.empty())
        open_store(site, caller).pin(Digest(record.digest), folder.path_of(name) + "/state");
}

}  // namespace berth
