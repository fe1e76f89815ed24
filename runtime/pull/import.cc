#include "runtime/pull/import.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/stored.hh"
#include "runtime/store/scratch.hh"

namespace berth::pull {

namespace {

/// `text` as one word of a shell.
std::string quoted(const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string quoted(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += " " + quoted(word);
    return out;
}

/// A file to be, in the folder where it will appear: without a name where the file system can do that, so that a kill leaves nothing.
class Output {
  public:
    explicit Output(const std::string& path) : path_(path) {
        size_t slash = path.rfind('/');
        name_ = path.substr(slash + 1);
        if (name_.empty()) throw Error(cat("writing ", printable(path, 4096), ": this names a folder; name a file"));
        folder_ = sys::open_file(slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash), O_RDONLY | O_DIRECTORY);
        file_ = Fd(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
        if (file_) return;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail();
        temporary_ = cat(".berth-import.", store::scratch_name());
        file_ = sys::open_at(folder_.get(), temporary_, O_RDWR | O_CREAT | O_EXCL, 0666);
    }
    ~Output() {
        if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
    }
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    int fd() const { return file_.get(); }

    /// Before the work as well as at its end: nobody wants to wait for a refusal.
    void refuse_existing() const {
        struct stat st {};
        if (::fstatat(folder_.get(), name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) refuse();
    }

    void publish(bool force) {
        if (::fsync(file_.get()) != 0) fail();
        if (!force) {
            // A link, unlike a rename, never replaces anything.
            if (!link_as(name_)) errno == EEXIST ? refuse() : fail();
        } else {
            if (temporary_.empty()) {
                std::string name = cat(".berth-import.", store::scratch_name());
                if (!link_as(name)) fail();
                temporary_ = name;
            }
            if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) fail();
            temporary_.clear();
        }
        if (::fsync(folder_.get()) != 0) fail();
    }

  private:
    bool link_as(const std::string& name) const {
        if (!temporary_.empty()) return ::linkat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str(), 0) == 0;
        return ::linkat(AT_FDCWD, cat("/proc/self/fd/", file_.get()).c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    }
    [[noreturn]] void refuse() const { throw Error(cat("writing ", printable(path_, 4096), ": it exists already; remove it or use --force")); }
    [[noreturn]] void fail() const {
        int number = errno;
        throw SysError(cat("writing ", printable(path_, 4096)), number);
    }

    std::string path_, name_, temporary_;
    Fd folder_, file_;
};

image::ImageDescription describe(const store::Store& store, const std::string& digest, const std::string& what) {
    auto manifest = image::parse_manifest(store.read_document(digest, "manifest.json"), "", what);
    auto* single = std::get_if<image::Manifest>(&manifest);
    if (single == nullptr) throw Error(cat(what, ": its manifest is an image index"));
    return image::parse_config(store.read_document(digest, "config.json"), single->layers.size(), what);
}

}  // namespace

std::vector<squash::AddedFile> enroot_files(const plan::ImageConfig& config) {
    std::string environment;
    for (const std::string& variable : config.env)
        // The format has no way to write a line end.
        if (variable.find('\n') == variable.npos) environment += variable + "\n";
    std::string rc;
    if (!config.working_dir.empty()) {
        std::string directory = quoted(config.working_dir);
        rc += cat("mkdir -p ", directory, " 2> /dev/null\ncd ", directory, " && unset OLDPWD || exit 1\n\n");
    }
    rc += cat("if [ -s /etc/rc.local ]; then\n    . /etc/rc.local\nfi\n\nif [ $# -gt 0 ]; then\n    exec", quoted(config.entrypoint), " \"$@\"\nelse\n    exec",
              quoted(config.entrypoint), quoted(config.cmd), "\nfi\n");
    return {{"etc/environment", environment}, {"etc/rc", rc}};
}

void import_image(const store::Store& store, const std::string& digest, const std::string& reference, const std::string& path, const ImportOptions& options,
                  Meter& meter) {
    std::string what = printable(path, 4096);
    Fd lease = store.lease(store.image_of(digest).value_or(digest));
    image::ImageDescription image = describe(store, digest, cat("image ", digest));
    Output output(path);
    if (!options.force) output.refuse_existing();
    meter.begin(Phase::merging, cat("merging the ", image.diff_ids.size(), " layers of image ", digest));
    std::vector<squash::LayerInfo> infos;
    squash::Tree tree = merged_tree(store, image.diff_ids, cat("image ", digest), infos);
    std::vector<Fd> layers;
    for (const std::string& diff_id : image.diff_ids) layers.push_back(store.open_layer(diff_id));
    auto copied = [&, before = uint64_t{0}](uint64_t bytes, uint64_t total) mutable {
        if (bytes == 0) meter.begin(Phase::writing, cat("writing ", what), total);
        meter.advance(bytes - std::exchange(before, bytes));
    };
    squash::flatten(tree, layers, infos, options.plain ? std::vector<squash::AddedFile>() : enroot_files(image.config), output.fd(), what, copied);
    squash::append_config(output.fd(), {image.config, digest, reference}, what);
    meter.begin(Phase::saving, cat("saving ", what, " to disk"));
    output.publish(options.force);
}

}  // namespace berth::pull
