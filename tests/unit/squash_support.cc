#include "tests/unit/squash_support.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/catch.hh"

namespace berth::squash::test {

namespace {

void set_time(const std::string& path, time_t seconds) {
    timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

void make_sparse_files(const std::string& root) {
    Fd sparse = sys::open_file(root + "/sparse", O_CREAT | O_WRONLY, 0644);
    REQUIRE(::pwrite(sparse.get(), "middle", 6, 1 << 20) == 6);
    REQUIRE(::ftruncate(sparse.get(), (3 << 20) + 5) == 0);
    Fd hole = sys::open_file(root + "/hole", O_CREAT | O_WRONLY, 0644);
    REQUIRE(::ftruncate(hole.get(), 1 << 20) == 0);
}

void make_directories(const std::string& root, bool small) {
    namespace fs = std::filesystem;
    fs::create_directories(root + "/many");
    for (int i = 0; i < (small ? 20 : 300); ++i)
        write_file(cat(root, "/many/entry-", i), prose(static_cast<size_t>(i) * 7, static_cast<uint32_t>(i)));
    fs::create_directories(root + "/empty");
    std::string deep = root + "/deep";
    for (int i = 0; i < (small ? 5 : 60); ++i) deep += "/d";
    fs::create_directories(deep);
    write_file(deep + "/bottom", "x");
}

void make_names(const std::string& root) {
    write_file(root + "/" + std::string(255, 'n'), "long name");
    write_file(root + "/not-utf8-\xff\xfe", "bytes");
    write_file(root + "/line\nend and 'blank'", "odd");
    REQUIRE(::symlink("../some/where", (root + "/link").c_str()) == 0);
    REQUIRE(::symlink(std::string(3000, 't').c_str(), (root + "/long-link").c_str()) == 0);
    REQUIRE(::link((root + "/link").c_str(), (root + "/link-again").c_str()) == 0);
    REQUIRE(::mkfifo((root + "/fifo").c_str(), 0622) == 0);
}

/// The value, or nothing when the file system has no xattrs; said aloud once.
bool set_xattr(const std::string& path, const char* name, const std::string& value) {
    if (::lsetxattr(path.c_str(), name, value.data(), value.size(), 0) == 0) return true;
    if (errno != EOPNOTSUPP || std::getenv("BERTH_MUST_RUN"))
        FAIL("setting xattrs in the temporary folder: " << reason(errno));
    WARN("the temporary folder has no user xattrs: NOT COMPARED");
    return false;
}

std::map<std::string, std::string> xattrs_of(const std::string& path) {
    char names[65536];
    std::map<std::string, std::string> out;
    ssize_t size = ::llistxattr(path.c_str(), names, sizeof names);
    for (ssize_t at = 0; at < size; at += static_cast<ssize_t>(std::string(names + at).size()) + 1) {
        std::string name = names + at;
        if (!name.starts_with("user.")) continue;
        std::string value(65536, 0);
        ssize_t got = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
        value.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
        out[name] = value;
    }
    return out;
}

class Comparison {
  public:
    explicit Comparison(Opened& opened) : opened_(opened) {}

    void directory(uint32_t number, const std::string& path) {
        std::set<std::string> expected;
        uint32_t below = 0;
        for (const auto& item : std::filesystem::directory_iterator(path)) {
            expected.insert(item.path().filename());
            below += item.symlink_status().type() == std::filesystem::file_type::directory;
        }
        const Index& index = opened_.index;
        std::vector<std::string> got;
        for (uint32_t i = 0; i < index.entry_count(number); ++i) {
            auto entry = index.entry(number, i);
            REQUIRE(entry);
            got.emplace_back(entry->name);
            REQUIRE(index.lookup(number, entry->name) == entry->inode);
            object(entry->inode, path + "/" + got.back(), number);
            REQUIRE(entry->mode == index.inode(entry->inode)->mode);
        }
        REQUIRE(got == std::vector<std::string>(expected.begin(), expected.end()));
        REQUIRE(index.lookup(number, "no such name") == 0);
        REQUIRE(index.inode(number)->nlink == 2 + below);
    }

    void object(uint32_t number, const std::string& path, uint32_t parent) {
        INFO(printable(path, 4096));
        struct stat st {};
        REQUIRE(::lstat(path.c_str(), &st) == 0);
        auto view = opened_.index.inode(number);
        REQUIRE(view);
        // Only root may give files to others, and unsquashfs lets nobody else make them setuid.
        bool as_root = ::geteuid() == 0;
        REQUIRE((view->mode & (as_root ? ~0U : ~06000U)) == (st.st_mode & (as_root ? ~0U : ~06000U)));
        REQUIRE(view->mtime == st.st_mtime);
        if (as_root) REQUIRE((view->uid == st.st_uid && view->gid == st.st_gid));
        // mksquashfs makes copies of hard-linked symlinks.
        if (!S_ISLNK(st.st_mode)) REQUIRE(inodes_.emplace(st.st_ino, number).first->second == number);
        xattrs(number, path);
        if (S_ISDIR(st.st_mode)) {
            REQUIRE(opened_.index.parent(number) == parent);
            directory(number, path);
            return;
        }
        if (!S_ISLNK(st.st_mode)) REQUIRE(view->nlink == st.st_nlink);
        if (S_ISLNK(st.st_mode))
            REQUIRE(opened_.index.symlink_target(number).value() == std::filesystem::read_symlink(path).string());
        if (S_ISREG(st.st_mode)) content(number, path, static_cast<uint64_t>(st.st_size));
    }

  private:
    void xattrs(uint32_t number, const std::string& path) {
        std::map<std::string, std::string> got;
        for (std::string_view name : opened_.index.xattr_names(number))
            got[std::string(name)] = opened_.index.xattr(number, name).value();
        REQUIRE(got == xattrs_of(path));
    }

    void content(uint32_t number, const std::string& path, uint64_t size) {
        REQUIRE(opened_.index.inode(number)->size == size);
        std::string expected = read_file(path);
        REQUIRE((content_of(opened_, number) == expected));
        FileData file = opened_.index.file(number).value();
        std::mt19937 random(number);
        for (int i = 0; i < (size > 100000 ? 30 : 3); ++i) {
            uint64_t offset = random() % (size + 10);
            std::string part(random() % std::min<uint64_t>(300000, size + 10), '#');
            long got = opened_.reader.read(file, offset, part);
            REQUIRE(got == static_cast<long>(std::min<uint64_t>(part.size(), offset < size ? size - offset : 0)));
            part.resize(static_cast<size_t>(got));
            REQUIRE((part == (offset < size ? expected.substr(offset, part.size()) : "")));
        }
    }

    Opened& opened_;
    std::map<ino_t, uint32_t> inodes_;
};

}  // namespace

std::string noise(size_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::string out(size, 0);
    for (char& c : out) c = static_cast<char>(random());
    return out;
}

std::string prose(size_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::string out;
    while (out.size() < size) out += cat("word", random() % 500, ' ');
    out.resize(size);
    return out;
}

void write_file(const std::string& path, const std::string& content) {
    std::ofstream out(path, std::ios::binary);
    out << content;
    REQUIRE(out.flush());
}

std::string read_file(const std::string& path) {
    return sys::read_file(path, 1 << 30);
}

void make_sample_tree(const std::string& root, bool small) {
    std::filesystem::create_directories(root);
    make_directories(root, small);
    make_names(root);
    write_file(root + "/nothing", "");
    write_file(root + "/short", "short\n");
    write_file(root + "/block", prose(131072, 1));
    write_file(root + "/block-and-tail", prose(131072 + 100, 2));
    write_file(root + "/noise", noise(small ? 9000 : 700001, 3));
    if (!small)
        write_file(root + "/mixed", prose(500000, 4) + noise(400000, 5) + std::string(300000, 0) + prose(65536, 6));
    if (!small) write_file(root + "/large", prose(9 << 20, 7));
    if (!small) make_sparse_files(root);
    REQUIRE(::link((root + "/block").c_str(), (root + "/many/hardlink").c_str()) == 0);
    std::string shared(3000, 'v');
    if (set_xattr(root + "/short", "user.plain", "value")) {
        set_xattr(root + "/short", "user.empty", "");
        set_xattr(root + "/block", "user.shared", shared);
        set_xattr(root + "/noise", "user.shared", shared);
        set_xattr(root + "/empty", "user.on.directory", noise(300, 8));
    }
    ::chmod((root + "/short").c_str(), 06755);
    ::chmod((root + "/empty").c_str(), 01777);
    set_time(root + "/short", 0);
    set_time(root + "/link", 1234567890);
    set_time(root + "/nothing", 4000000000);
}

bool have_mksquashfs() {
    if (fixtures::run_command("mksquashfs -version").status == 0) return true;
    if (std::getenv("BERTH_MUST_RUN")) FAIL("mksquashfs is missing");
    WARN("mksquashfs is missing: NOTHING TESTED HERE");
    return false;
}

void make_image(const std::string& folder, const std::string& image, const std::string& options) {
    auto result =
        fixtures::run_command(cat("mksquashfs '", folder, "' '", image, "' -noappend -quiet -no-progress ", options));
    INFO(options << "\n" << result.output);
    REQUIRE(result.status == 0);
}

Opened open_image(const std::string& image, size_t cache_bytes) {
    Fd fd = sys::open_file(image, O_RDONLY);
    std::vector<LayerInfo> layers(1);
    Tree tree = read_tree(fd.get(), image, 0, layers[0]);
    std::vector<Fd> files;
    files.push_back(std::move(fd));
    return {Index::from_bytes(build_index(tree, layers, {})), DataReader(std::move(files), layers, cache_bytes)};
}

void require_same(Opened& opened, const std::string& folder) {
    Comparison(opened).object(1, folder, 1);
}

std::string content_of(Opened& opened, uint32_t inode, size_t limit) {
    auto file = opened.index.file(inode);
    if (!file) throw Error("not a readable file");
    std::string out(std::min<uint64_t>(file->size, limit), '#');
    for (size_t at = 0; at < out.size();) {
        // An odd size, so that whole blocks, parts and runs of blocks all occur.
        auto part = std::span(out).subspan(at, std::min<size_t>(out.size() - at, 1000003));
        long got = opened.reader.read(*file, at, part);
        if (got <= 0) throw Error(cat("reading: ", reason(static_cast<int>(-got))));
        at += static_cast<size_t>(got);
    }
    return out;
}

uint32_t at_path(const Index& index, const std::string& path) {
    uint32_t at = 1;
    if (path.empty()) return at;
    for (const std::string& name : split(path, '/')) at = index.lookup(at, name);
    return at;
}

}  // namespace berth::squash::test
