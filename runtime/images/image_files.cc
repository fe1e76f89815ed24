#include "runtime/images/image_files.hh"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/read/data.hh"

namespace berth {

namespace {

constexpr size_t file_limit = 1 << 20;
constexpr uint32_t name_limit = 4096;
constexpr int link_limit = 40;

/// Parts of a path, the first one last.
std::vector<std::string> reversed_parts(std::string_view path) {
    std::vector<std::string> out = split(path, '/');
    std::ranges::reverse(out);
    return out;
}

std::string text_below(int root, const std::string& path) try {
    Fd file = sys::open_in_root(root, path, O_RDONLY | O_NONBLOCK);
    if (!S_ISREG(sys::stat_of(file.get(), path).st_mode)) return {};
    return sys::read_all(file.get(), file_limit, path);
} catch (const Error&) {
    return {};
}

std::vector<std::string> sorted_names(int root, const std::string& path) try {
    Fd directory = sys::open_in_root(root, path, O_RDONLY | O_DIRECTORY);
    std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(directory.get()), ::closedir);
    if (!list) return {};
    (void)directory.release();
    std::vector<std::string> out;
    while (const dirent* entry = ::readdir(list.get())) {
        std::string name = entry->d_name;
        if (name != "." && name != ".." && out.size() < name_limit) out.push_back(std::move(name));
    }
    std::ranges::sort(out);
    return out;
} catch (const Error&) {
    return {};
}

}  // namespace

ImageFiles::ImageFiles(const ContainerImage& image) : image_(image) {
    if (!image.directory.empty()) root_ = sys::open_file(image.directory, O_PATH | O_DIRECTORY);
}

uint32_t ImageFiles::find(const std::string& path) const {
    const squash::Index& index = image_.index;
    std::vector<std::string> rest = reversed_parts(path);
    uint32_t at = 1;
    for (int links = 0; !rest.empty();) {
        std::string name = std::move(rest.back());
        rest.pop_back();
        if (name.empty() || name == ".") continue;
        uint32_t next = name == ".." ? index.parent(at) : index.lookup(at, name);
        if (next == 0) return 0;
        auto target = index.symlink_target(next);
        if (!target) {
            at = next;
            continue;
        }
        if (++links > link_limit) return 0;
        if (target->starts_with('/')) at = 1;
        for (std::string& part : reversed_parts(*target)) rest.push_back(std::move(part));
    }
    return at;
}

std::string ImageFiles::text(const std::string& path) const {
    if (root_) return text_below(root_.get(), path);
    uint32_t number = find(path);
    auto file = number == 0 ? std::nullopt : image_.index.file(number);
    if (!file || file->size > file_limit) return {};
    std::vector<Fd> layers;
    for (const Fd& layer : image_.layers) {
        layers.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!layers.back()) throw SysError("opening the image once more");
    }
    squash::DataReader reader(std::move(layers), image_.index.layers(), file_limit, {}, {.sums = image_.sums});
    std::string out(file->size, '\0');
    return reader.read(*file, 0, out) == static_cast<long>(out.size()) ? out : std::string();
}

std::vector<std::string> ImageFiles::names(const std::string& path) const {
    if (root_) return sorted_names(root_.get(), path);
    uint32_t number = find(path);
    uint32_t count = number == 0 ? 0 : std::min(image_.index.entry_count(number), name_limit);
    std::vector<std::string> out;
    for (uint32_t i = 0; i < count; ++i)
        if (auto entry = image_.index.entry(number, i)) out.emplace_back(entry->name);
    return out;
}

}  // namespace berth
