#include "runtime/container/named/data_path.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr const char* file_name = "data-path";
constexpr size_t size_limit = 64 << 10;

bool is_gone(const std::string& path) { return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

}  // namespace

void note_data_path(int folder, const enroot::DataPath& path) {
    if (path.text.empty()) return;
    Fd file = sys::open_at(folder, file_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), enroot::data_path_text(path), "the data path of a container");
    if (!sys::synced(file.get())) throw SysError("writing the data path of a container");
}

enroot::DataPath noted_data_path(const ContainerFolder& folder, const std::string& name) try {
    Fd file = sys::open_if_exists(AT_FDCWD, cat(folder.path_of(name), "/", file_name), O_RDONLY | O_NOFOLLOW);
    if (!file) return {};
    return enroot::parse_data_path(sys::read_all(file.get(), size_limit, "the data path of a container"));
} catch (const Error&) {
    return {};
}

bool is_over(const enroot::DataPath& path) { return !path.signs.empty() && std::ranges::all_of(path.signs, is_gone); }

}  // namespace berth
