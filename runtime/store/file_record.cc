#include "runtime/store/file_record.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

// No host name starts with `_`.
constexpr const char* files = "_files";
constexpr const char* ids = "_ids";

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

/// One and the same file can be read as more than one kind of image.
const char* kind_word(plan::Reference::Kind kind) {
    if (kind == plan::Reference::Kind::oci) return "oci";
    return kind == plan::Reference::Kind::oci_archive ? "oci-archive" : "docker-archive";
}

}  // namespace

FileRecord file_record(const plan::Reference& image) {
    std::string path = image.kind == plan::Reference::Kind::oci ? image.path + "/index.json" : image.path;
    Fd file = sys::open_file(path, O_PATH);
    struct stat st = sys::stat_of(file.get(), printable(path, 4096));
    FileRecord out;
    out.changed = std::max(st.st_mtim.tv_sec, st.st_ctim.tv_sec);
    out.reference.registry = files;
    out.reference.name =
        cat(st.st_dev, "-", st.st_ino, "-", st.st_size, "-", nanoseconds(st.st_mtim), "-", nanoseconds(st.st_ctim));
    std::string selector = image.selector;
    std::replace(selector.begin(), selector.end(), '/', '%');
    out.reference.tag = cat(kind_word(image.kind), ":", selector);
    return out;
}

plan::Reference id_record(const std::string& id) {
    plan::Reference out;
    out.registry = ids;
    out.name = id;
    out.tag = "id";
    return out;
}

}  // namespace berth::store
