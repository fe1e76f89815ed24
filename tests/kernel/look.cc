#include "tests/kernel/look.hh"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::kernel_test {

std::string in_order(std::initializer_list<std::string> words) {
    std::string text;
    for (const std::string& word : words) text += text.empty() ? word : " " + word;
    return text;
}

std::string write_to(const std::string& path, const std::string& text) {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ssize_t put = fd ? ::write(fd.get(), text.data(), text.size()) : -1;
    if (put < 0) return reason(errno);
    return put == static_cast<ssize_t>(text.size()) ? "ok" : "short";
}

std::string slurp(const std::string& path) {
    return sys::read_file(path, 64 << 20);
}

std::string verdict(long result) {
    return result >= 0 ? "ok" : reason(errno);
}

std::string status_line(const std::string& name, const std::string& path) {
    for (const std::string& line : split(slurp(path), '\n'))
        if (line.starts_with(name + ":")) return std::string(trimmed(line.substr(name.size() + 1)));
    return "missing";
}

std::string names_in(const std::string& path) {
    std::string names;
    DIR* directory = opendir(path.c_str());
    if (!directory) return "missing";
    std::vector<std::string> found;
    while (const dirent* entry = readdir(directory)) found.emplace_back(entry->d_name);
    closedir(directory);
    std::sort(found.begin(), found.end());
    for (const std::string& name : found)
        if (name[0] != '.') names += name + " ";
    return names;
}

std::string mode_of(const std::string& path) {
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0) return reason(errno);
    char text[64];
    snprintf(text, sizeof text, "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
    return text;
}

}  // namespace berth::kernel_test
