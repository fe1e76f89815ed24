#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"
#include "runtime/store/store.hh"

namespace berth::store {

namespace {

void make_durable(int fd, const std::string& what) {
    if (!sys::synced(fd)) throw SysError(cat("writing ", what, " to disk"));
}

/// What users read of a store that is offered to them.
constexpr mode_t published_file = 0444;
constexpr std::array read_by_all{"layers", "images", "lists", "refs"};
constexpr mode_t offered_folder = 0755;

/// `what` is the folder's path for errors.
void write_file(int directory, const std::string& name, const std::string& what, std::string_view text) {
    std::string path = printable(cat(what, "/", name), 4096);
    Fd file = sys::try_open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444);
    if (!file) throw SysError(cat("creating ", path));
    sys::write_all(file.get(), text, path);
    if (::fchmod(file.get(), published_file) != 0) throw SysError(cat("setting the mode of ", path));
    make_durable(file.get(), path);
}

/// A folder with all that is in it, which has no links.
void open_to_all(int above, const std::string& name, const std::string& what) {
    Fd folder = sys::open_beneath(above, name, O_RDONLY | O_DIRECTORY);
    for (const std::string& entry : sys::list_directory(folder.get(), what)) {
        std::string shown = cat(what, "/", printable(entry));
        Fd object = sys::open_beneath(folder.get(), entry, O_RDONLY | O_NONBLOCK);
        if (S_ISDIR(sys::stat_of(object.get(), shown).st_mode))
            open_to_all(folder.get(), entry, shown);
        else if (::fchmod(object.get(), published_file) != 0)
            throw SysError(cat("setting the mode of ", shown));
    }
    if (::fchmod(folder.get(), offered_folder) != 0) throw SysError(cat("setting the mode of ", what));
}

}  // namespace

NewFile::NewFile(Fd directory, std::string name, Fd file)
    : directory_(std::move(directory)), name_(std::move(name)), file_(std::move(file)) {}

NewFile::~NewFile() {
    if (directory_ && !name_.empty()) ::unlinkat(directory_.get(), name_.c_str(), 0);
}

// A folder's own mode comes last: a kill in between is made good by the next opening.
void Store::offer() const {
    auto is_open = [](const struct stat& st) { return (st.st_mode & offered_folder) == offered_folder; };
    for (const char* name : read_by_all) {
        struct stat st {};
        if (::fstatat(own_.root(), name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !is_open(st))
            open_to_all(own_.root(), name, printable(shown(name), 4096));
    }
    if (!is_open(sys::stat_of(own_.root(), path())) && ::fchmod(own_.root(), offered_folder) != 0)
        throw SysError(cat("setting the mode of ", printable(path(), 4096)));
}

void Store::make_folder(int above, const std::string& name, const std::string& what) const {
    if (::mkdirat(above, name.c_str(), 0700) != 0 && errno != EEXIST) throw SysError(cat("creating ", what));
    if (is_offered() && ::fchmodat(above, name.c_str(), offered_folder, 0) != 0)
        throw SysError(cat("setting the mode of ", what));
}

NewFile Store::named_file() const {
    Fd tmp = directory("tmp");
    ScratchGuard guard(tmp.get());
    std::string name = scratch_name();
    Fd file = sys::open_at(tmp.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    ::flock(file.get(), LOCK_EX | LOCK_NB);
    return {std::move(tmp), std::move(name), std::move(file)};
}

NewFile Store::new_file() const {
    Fd tmp = directory("tmp");
    Fd file = sys::try_open_at(tmp.get(), ".", O_TMPFILE | O_RDWR, 0600);
    if (file) {
        // Held from now on, so that no sweep takes it for abandoned in the moment when it has a name in tmp.
        ::flock(file.get(), LOCK_EX | LOCK_NB);
        return {std::move(tmp), "", std::move(file)};
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        throw SysError(cat("creating a file in ", printable(shown("tmp"))));
    return named_file();
}

void Store::move_in(NewFile& file, const std::string& folder, const std::string& name) const {
    std::string path = printable(shown(cat(folder, "/", name)), 4096);
    Fd target = directory(folder);
    if (::fchmod(file.fd(), published_file) != 0) throw SysError(cat("setting the mode of ", path));
    make_durable(file.fd(), path);
    if (file.name_.empty()) {
        // A link cannot replace a file, a rename can: the name in between is swept like any other.
        std::string scratch = scratch_name();
        std::string self = cat("/proc/self/fd/", file.fd());
        if (::linkat(AT_FDCWD, self.c_str(), file.directory_.get(), scratch.c_str(), AT_SYMLINK_FOLLOW) != 0)
            throw SysError(cat("giving a name to what is to be ", path));
        file.name_ = scratch;
    }
    if (::renameat(file.directory_.get(), file.name_.c_str(), target.get(), name.c_str()) != 0)
        throw SysError(cat("publishing ", path));
    file.name_.clear();
    file.directory_.reset();
    make_durable(target.get(), cat("the folder of ", path));
}

void Store::publish_layer(NewFile file, const Digest& diff_id) const {
    move_in(file, "layers", layer_file(diff_id));
}

void Store::publish_text(std::string_view text, const std::string& folder, const std::string& name) const {
    NewFile file = new_file();
    sys::write_all(file.fd(), text, printable(shown(cat(folder, "/", name)), 4096));
    move_in(file, folder, name);
}

void Store::publish_image(const Digest& digest, const ImageFiles& files) const {
    Fd tmp = directory("tmp");
    Scratch scratch(tmp.get(), shown("tmp"));
    std::string shown_scratch = shown(cat("tmp/", scratch.name()));
    write_file(scratch.fd(), "manifest.json", shown_scratch, files.manifest);
    write_file(scratch.fd(), "config.json", shown_scratch, files.config);
    write_file(scratch.fd(), "index", shown_scratch, files.index);
    if (is_offered() && ::fchmod(scratch.fd(), offered_folder) != 0)
        throw SysError(cat("setting the mode of ", printable(shown_scratch, 4096)));
    make_durable(scratch.fd(), printable(shown_scratch, 4096));
    // Before it is here, so that it never looks unused.
    { Lease used = lease(digest); }
    Fd images = directory("images");
    if (::renameat(tmp.get(), scratch.name().c_str(), images.get(), digest.hex().c_str()) == 0) {
        scratch.published();
        make_durable(images.get(), printable(shown("images")));
        return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST)
        throw SysError(cat("publishing the image ", digest, " in the store ", printable(path())));
    replace_index(digest, files.index);
}

void Store::clear_unproved(const Digest& diff_id) const {
    if (::unlinkat(directory("unproved").get(), diff_id.hex().c_str(), 0) != 0 && errno != ENOENT)
        throw SysError(cat("removing ", printable(shown(cat("unproved/", diff_id.hex())), 4096)));
}

bool Store::is_unproved(const Digest& diff_id) const {
    return static_cast<bool>(sys::open_if_exists(directory("unproved").get(), diff_id.hex(), O_PATH | O_NOFOLLOW));
}

std::vector<Digest> Store::unproved() const {
    std::vector<Digest> out;
    for (const std::string& name : sys::list_directory(directory("unproved").get(), printable(shown("unproved"), 4096)))
        if (auto diff_id = Digest::from_hex(name)) out.push_back(*diff_id);
    return out;
}

void Store::replace_index(const Digest& digest, std::string_view index) const {
    put_document(digest, "index", index);
}

void Store::put_document(const Digest& digest, const std::string& file, std::string_view text) const {
    publish_text(text, cat("images/", digest.hex()), file);
}

void Store::put_prefetch_list(const std::string& index, std::string_view text) const {
    publish_text(text, "prefetch", index);
    Fd folder = directory("prefetch");
    std::vector<std::pair<int64_t, std::string>> lists;
    for (const std::string& name : sys::list_directory(folder.get(), printable(shown("prefetch"), 4096))) {
        struct stat st {};
        if (::fstatat(folder.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            lists.emplace_back(int64_t{st.st_mtim.tv_sec}, name);
    }
    std::sort(lists.begin(), lists.end());
    // Another process may remove the same ones.
    for (size_t i = 0; i + prefetch_lists < lists.size(); ++i) ::unlinkat(folder.get(), lists[i].second.c_str(), 0);
}

void Store::put_image_index(const Digest& index, const Digest& digest) const {
    publish_text(cat("image ", digest, "\n"), "lists", image_index_file(index));
}

void Store::make_refs_directory(const plan::Reference& reference) const {
    std::string path = "refs";
    for (const std::string& part : split(refs_directory(reference).substr(5), '/')) {
        Fd above = directory(path);
        make_folder(above.get(), part, printable(shown(refs_directory(reference)), 4096));
        path += "/" + part;
    }
}

/// In a store that others read, an image's last use is when a tag last meant it: they leave no lease.
void Store::note_renaming(const plan::Reference& reference, const Digest& digest) const {
    auto before = is_offered() ? own_.find_tag(reference) : std::nullopt;
    if (before && before->digest != digest && has_image(before->digest)) Lease named = lease_image(before->digest);
}

void Store::put_tag(const plan::Reference& reference, const TagRecord& record) const {
    std::string text = cat("digest ", record.digest, "\ntime ", record.time, "\n");
    // An ETag is quoted printable ASCII by its grammar; another one could forge lines.
    if (!record.etag.empty() && record.etag.size() <= 256 && record.etag.find_first_of("\r\n") == record.etag.npos)
        text += cat("etag ", record.etag, "\n");
    if (!record.source.empty() && record.source.find_first_of("\r\n") == record.source.npos)
        text += cat("source ", record.source, "\n");
    note_renaming(reference, record.digest);
    make_refs_directory(reference);
    publish_text(text, refs_directory(reference), tag_file(reference));
}

size_t Store::sweep() const { return sweep_scratch(directory("tmp").get()); }

}  // namespace berth::store
