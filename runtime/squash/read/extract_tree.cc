#include "runtime/squash/read/extract_tree.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/shown_mode.hh"

namespace berth::squash {

namespace {

constexpr size_t piece = 1 << 20;

/// Something of the image and where it goes, relative to the directory.
struct Item {
    uint32_t number = 0;
    std::string path;
};

class Extractor {
  public:
    Extractor(const Index& index, DataReader& reader, int directory, const std::string& what, const ExtractWatch& watch,
              plan::ImageModes modes)
        : index_(index), reader_(reader), directory_(directory), what_(what), watch_(watch), modes_(modes) {}
    void run(unsigned threads);

  private:
    [[noreturn]] void fail(const std::string& path, int number) const {
        throw SysError(cat("extracting ", what_, ": ", printable(path, 4096)), number);
    }
    void check(long result, const std::string& path) const {
        if (result < 0) fail(path, errno);
    }
    InodeView inode(const Item& item) const;
    void make_directories();
    void make_entry(const Item& item);
    void work() noexcept;
    void write_file(const Item& item);
    void write_content(const Item& item, int fd, const FileData& file);
    void count(uint64_t bytes);
    void finish(const Item& item, int fd) const;
    void make_links();

    const Index& index_;
    DataReader& reader_;
    int directory_;
    const std::string& what_;
    const ExtractWatch& watch_;
    plan::ImageModes modes_;
    std::vector<Item> directories_{{1, "."}};  ///< a directory before what is in it
    std::vector<Item> files_;
    std::vector<std::pair<std::string, std::string>> links_;  ///< an existing name, and another one for it
    std::unordered_map<uint32_t, std::string> names_;         ///< of inodes with more than one
    std::atomic<size_t> next_ = 0;
    std::mutex mutex_;  ///< of what follows
    uint64_t total_ = 0, done_ = 0;
    std::exception_ptr failure_;
};

InodeView Extractor::inode(const Item& item) const {
    auto found = index_.inode(item.number);
    if (!found) throw Error(cat("extracting ", what_, ": ", printable(item.path, 4096), " is nowhere in its index"));
    found->mode = shown_mode(found->mode, modes_);
    return *found;
}

void Extractor::make_directories() {
    for (size_t i = 0; i < directories_.size(); ++i) {
        // A copy: the list grows.
        Item directory = directories_[i];
        for (uint32_t at = 0; at < index_.entry_count(directory.number); ++at) {
            auto entry = index_.entry(directory.number, at);
            if (!entry || entry->name.empty() || entry->name == "." || entry->name == ".." ||
                entry->name.find('/') != entry->name.npos)
                throw Error(cat("extracting ", what_, ": a name in ", printable(directory.path, 4096), " is damaged"));
            make_entry({entry->inode, i == 0 ? std::string(entry->name) : cat(directory.path, "/", entry->name)});
        }
    }
}

/// Makes what has no content, and notes down the rest.
void Extractor::make_entry(const Item& item) {
    InodeView about = inode(item);
    if (S_ISCHR(about.mode) || S_ISBLK(about.mode)) return;
    if (!S_ISDIR(about.mode) && about.nlink > 1) {
        auto [known, is_new] = names_.emplace(item.number, item.path);
        if (!is_new) return void(links_.emplace_back(known->second, item.path));
    }
    if (S_ISREG(about.mode)) {
        total_ += about.size;
        files_.push_back(item);
        return;
    }
    if (S_ISDIR(about.mode)) {
        check(::mkdirat(directory_, item.path.c_str(), 0700), item.path);
        directories_.push_back(item);
        return;
    }
    if (S_ISLNK(about.mode)) {
        check(::symlinkat(std::string(index_.symlink_target(item.number).value_or("")).c_str(), directory_,
                          item.path.c_str()),
              item.path);
    } else {
        check(::mknodat(directory_, item.path.c_str(), about.mode & (S_IFMT | 0777), 0), item.path);
        // The caller's umask is none of the image's business.
        check(::fchmodat(directory_, item.path.c_str(), about.mode & 0777, 0), item.path);
    }
    timespec times[2] = {{about.mtime, 0}, {about.mtime, 0}};
    check(::utimensat(directory_, item.path.c_str(), times, AT_SYMLINK_NOFOLLOW), item.path);
}

void Extractor::write_content(const Item& item, int fd, const FileData& file) {
    thread_local std::vector<char> buffer(piece);
    check(sys::uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(file.size)); }), item.path);
    uint64_t at = 0;
    while (auto data = index_.seek(item.number, at, SeekFor::data)) {
        count(*data - at);
        at = *data;
        long got = reader_.read(file, at, buffer);
        if (got <= 0)
            throw Error(cat("extracting ", what_, ": ", printable(item.path, 4096),
                            " is damaged; run berth verify --repair if it is in a store"));
        auto end = buffer.begin() + got;
        // What was a hole in the layer's archive stays one.
        bool empty = std::all_of(buffer.begin(), end, [](char c) { return c == 0; });
        if (!empty) {
            check(::lseek(fd, static_cast<off_t>(at), SEEK_SET), item.path);
            sys::write_all(fd, {buffer.data(), static_cast<size_t>(got)},
                           cat(printable(item.path, 4096), " of ", what_));
        }
        at += static_cast<uint64_t>(got);
        count(static_cast<uint64_t>(got));
    }
    count(file.size - at);
}

void Extractor::count(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    done_ += bytes;
    if (watch_) watch_(done_, total_);
}

/// Attributes come last: to write may need more than they allow, and changes the time.
void Extractor::finish(const Item& item, int fd) const {
    InodeView about = inode(item);
    for (std::string_view name : index_.xattr_names(item.number))
        if (auto value = shows_xattr(name) ? index_.xattr(item.number, name) : std::nullopt)
            check(::fsetxattr(fd, std::string(name).c_str(), value->data(), value->size(), 0),
                  cat(item.path, ", attribute ", name));
    check(::fchmod(fd, about.mode & 07777), item.path);
    timespec times[2] = {{about.mtime, 0}, {about.mtime, 0}};
    check(::futimens(fd, times), item.path);
}

void Extractor::write_file(const Item& item) {
    auto file = index_.file(item.number);
    if (!file) throw Error(cat("extracting ", what_, ": ", printable(item.path, 4096), " is damaged"));
    Fd fd = sys::open_beneath(directory_, item.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    write_content(item, fd.get(), *file);
    finish(item, fd.get());
}

void Extractor::work() noexcept {
    try {
        for (size_t i = next_++; i < files_.size(); i = next_++) write_file(files_[i]);
    } catch (...) {
        next_ = files_.size();
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
}

void Extractor::make_links() {
    for (const auto& [existing, name] : links_)
        check(::linkat(directory_, existing.c_str(), directory_, name.c_str(), 0), name);
}

void Extractor::run(unsigned threads) {
    make_directories();
    {
        std::vector<std::jthread> workers;
        for (unsigned i = 1; i < threads; ++i) workers.emplace_back(&Extractor::work, this);
        work();
    }
    if (failure_) std::rethrow_exception(failure_);
    make_links();
    // From below: a directory may get a mode that lets nobody in.
    for (auto item = directories_.rbegin(); item != directories_.rend(); ++item)
        finish(*item, sys::open_beneath(directory_, item->path, O_RDONLY | O_DIRECTORY).get());
}

}  // namespace

void extract_tree(const Index& index, DataReader& reader, int directory, unsigned threads, const std::string& what,
                 const ExtractWatch& watch, plan::ImageModes modes) {
    Extractor(index, reader, directory, what, watch, modes).run(threads);
}

}  // namespace berth::squash
