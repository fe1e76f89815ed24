#include "runtime/mount/accounts.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/operations.hh"

namespace berth::mount {

namespace {

constexpr size_t account_file_limit = 16 << 20;

class AccountWriter {
  public:
    AccountWriter(const squash::Index& index, squash::DataReader& reader, int upper) : index_(index), reader_(reader), upper_(upper) {}

    /// False when the line is not for this class.
    bool add(const plan::AccountLine& account);
    void write() const;

  private:
    struct Directory {
        std::string path;
        uint32_t number;
    };
    struct File {
        uint32_t number;
        std::string content;
    };
    bool shows_xattrs(uint32_t number) const;
    std::string content_of(const squash::FileData& file, const std::string& path);
    void finish_directory(const Directory& directory) const;

    const squash::Index& index_;
    squash::DataReader& reader_;
    int upper_;
    std::vector<Directory> directories_;  ///< a directory before what is in it
    std::map<std::string, File> files_;
};

/// These would have to be copied, too.
bool AccountWriter::shows_xattrs(uint32_t number) const {
    auto names = index_.xattr_names(number);
    return std::any_of(names.begin(), names.end(), squash::shows_xattr);
}

std::string AccountWriter::content_of(const squash::FileData& file, const std::string& path) {
    std::string out(file.size, '\0');
    if (reader_.read(file, 0, out.data(), out.size()) != static_cast<long>(out.size())) throw SysError(cat("reading ", printable(path, 4096), " of the image"), EIO);
    return out;
}

bool AccountWriter::add(const plan::AccountLine& account) {
    std::vector<Directory> above;
    uint32_t number = 1;
    std::string path;
    for (const std::string& part : split(std::string_view(account.path).substr(1), '/')) {
        if (auto inode = index_.inode(number); !inode || !S_ISDIR(inode->mode)) return false;
        if (!path.empty()) above.push_back({path, number});
        path += path.empty() ? part : "/" + part;
        number = index_.lookup(number, part);
        if (number == 0 || shows_xattrs(number)) return false;
    }
    auto file = index_.file(number);
    if (!file || file->size > account_file_limit) return false;
    auto [known, is_new] = files_.try_emplace(path, File{number, {}});
    if (is_new) known->second.content = content_of(*file, account.path);
    known->second.content = plan::with_account_line(known->second.content, account);
    for (const Directory& directory : above)
        if (std::none_of(directories_.begin(), directories_.end(), [&](const Directory& one) { return one.number == directory.number; }))
            directories_.push_back(directory);
    return true;
}

/// The image's mode and time, which it had through the overlay as well.
void AccountWriter::finish_directory(const Directory& directory) const {
    auto inode = index_.inode(directory.number).value();
    timespec times[2] = {{inode.mtime, 0}, {inode.mtime, 0}};
    if (::utimensat(upper_, directory.path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 || ::fchmodat(upper_, directory.path.c_str(), inode.mode & 07777, 0) != 0)
        throw SysError(cat("preparing /", printable(directory.path, 4096), " of the container"));
}

void AccountWriter::write() const {
    for (const Directory& directory : directories_)
        if (::mkdirat(upper_, directory.path.c_str(), 0700) != 0) throw SysError(cat("creating /", printable(directory.path, 4096), " in the container"));
    for (const auto& [path, file] : files_) {
        Fd fd = sys::open_at(upper_, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, index_.inode(file.number).value().mode & 07777);
        sys::write_all(fd.get(), file.content, cat("/", printable(path, 4096)));
    }
    std::for_each(directories_.rbegin(), directories_.rend(), [&](const Directory& directory) { finish_directory(directory); });
}

bool is_at_or_above(const std::string& target, const std::string& path) {
    return path == target || (path.starts_with(target) && (target.ends_with('/') || path[target.size()] == '/'));
}

}  // namespace

std::set<size_t> write_accounts(const squash::Index& index, squash::DataReader& reader, int upper, const std::vector<plan::Edit>& edits) {
    AccountWriter writer(index, reader, upper);
    std::set<size_t> done;
    for (size_t i = 0; i < edits.size(); ++i) {
        auto* account = std::get_if<plan::AccountLine>(&edits[i].action);
        if (!account) continue;
        bool covered = std::any_of(edits.begin(), edits.end(), [&](const plan::Edit& edit) {
            auto* mount = std::get_if<plan::Mount>(&edit.action);
            return mount && is_at_or_above(mount->target, account->path);
        });
        if (!covered && writer.add(*account)) done.insert(i);
    }
    writer.write();
    return done;
}

}  // namespace berth::mount
