#include "runtime/container/named/created.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"

namespace berth {

namespace {

constexpr size_t created_limit = 64 << 10;
constexpr const char* note_name = "made-of";

std::string folder_in(const std::string& home) { return home + "/.local/share/berth/created"; }

/// Empty without a home.
std::string path_for(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name) {
    return caller.home.empty() ? "" : cat(folder_in(caller.home), "/", folder.entry_of(name));
}

std::string about(const std::string& name) { return cat("the record of container ", name, " in your home"); }

bool is_unchanged(const plan::ContainerRecord& record) {
    try {
        return file_identity(record.image_file) == record.identity;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

void note_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name) {
    std::string path = path_for(caller, folder, name), what = about(name);
    auto record = folder.find(name);
    if (path.empty() || !record) return;
    sys::make_directories(folder_in(caller.home), 0700);
    std::string unfinished = cat(folder_in(caller.home), "/.new-", random_word());
    Fd file = sys::open_file(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    try {
        sys::write_all(file.get(), plan::record_text(*record), what);
        if (::rename(unfinished.c_str(), path.c_str()) != 0) throw SysError("writing " + what);
    } catch (const Error&) {
        ::unlink(unfinished.c_str());
        throw;
    }
}

std::string created_record(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name) {
    std::string path = path_for(caller, folder, name), what = about(name);
    // A home that cannot be read has none.
    Fd file = path.empty() ? Fd() : sys::try_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (!file) return {};
    struct stat info = sys::stat_of(file.get(), what);
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
        throw Error(cat("reading ", what, " (", printable(path, 4096), "): it is no file of your own; remove it"));
    return sys::read_all(file.get(), created_limit, what);
}

plan::Reference image_of_created(const std::string& text, const std::string& name) {
    plan::ContainerRecord record = plan::parse_record(text, about(name));
    bool has_copy = !record.image_file.empty() && is_unchanged(record);
    plan::Reference image = plan::parse_reference(has_copy ? record.image_file : record.image);
    if (has_copy) return image;
    if (image.has_path() && !sys::may_access(image.path, R_OK)) {
        int number = errno;
        throw Error(cat("container ", name, ": it is not on this node, and ", printable(image.path, 4096),
                        ", of which enroot create has made it elsewhere, cannot be read: ", reason(number),
                        "; make it readable here, or run enroot create on the node"));
    }
    if (!record.digest.empty() && image.kind == plan::Reference::Kind::registry)
        image.digest = Digest::parse(record.digest);
    image.written = image.text();
    return image;
}

void note_made_of(int folder, const std::string& record) {
    if (record.empty()) return;
    Fd file = sys::open_at(folder, note_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), record, "what a container is made of");
}

bool is_made_anew(const ContainerFolder& folder, const std::string& name, const std::string& record) try {
    Fd file = record.empty() ? Fd()
                             : sys::open_if_exists(AT_FDCWD, cat(folder.path_of(name), "/", note_name),
                                                   O_RDONLY | O_NOFOLLOW);
    return file && sys::read_all(file.get(), created_limit, "what a container is made of") != record;
} catch (const Error&) {
    return false;
}

bool forget_created(const plan::Caller& caller, const ContainerFolder& folder, const std::string& name) {
    std::string path = path_for(caller, folder, name);
    return !path.empty() && ::unlink(path.c_str()) == 0;
}

}  // namespace berth
