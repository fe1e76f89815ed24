#include "runtime/host/enroot_config.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/enroot/site_files.hh"

namespace berth {

namespace {

constexpr size_t file_limit = 1 << 20;

class Reader {
  public:
    Reader(plan::Site& site, const std::vector<std::string>& environment)
        : site_(site), value_([&environment](const std::string& name) { return value_in(environment, name); }) {}

    std::vector<std::string> read() {
        std::vector<std::string> variables;
        each_file("environ.d", ".env", [&](const std::string& text, const std::string&) {
            for (std::string& line : enroot::variable_lines(text, value_)) variables.push_back(with_percent(line));
        });
        std::vector<std::string>& of_site = site_.site.environment;
        of_site.insert(of_site.begin(), variables.begin(), variables.end());
        each_file("mounts.d", ".fstab", [this](const std::string& text, const std::string& path) {
            for (const enroot::FstabLine& line : enroot::mount_lines(text, value_)) add(line, path);
        });
        return std::move(notes_);
    }

  private:
    template <typename Take>
    void each_file(const char* folder, std::string_view suffix, Take take) {
        std::string path = cat(site_.site.enroot_config, "/", folder);
        Fd directory = sys::open_if_exists(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
        if (!directory) return;
        for (const std::string& name : sys::list_directory(directory.get(), path)) {
            if (!name.ends_with(suffix)) continue;
            std::string file = cat(path, "/", name);
            // It may have gone since: these folders are written to at run time.
            Fd opened = sys::open_if_exists(directory.get(), name, O_RDONLY | O_NONBLOCK);
            if (opened && is_roots(opened.get(), file)) take(sys::read_all(opened.get(), file_limit, file), file);
        }
    }

    bool is_roots(int file, const std::string& path) {
        struct stat st = sys::stat_of(file, path);
        if (!S_ISREG(st.st_mode)) return false;
        if (st.st_uid == 0 && (st.st_mode & 022) == 0) return true;
        notes_.push_back(cat("site.enroot_config: ", printable(path, 4096),
                             " is left out: others than root can write to it"));
        return false;
    }

    void add(const enroot::FstabLine& line, const std::string& path) {
        std::string place = cat(printable(path, 4096), ":", line.number);
        if (line.left_out.empty())
            site_.site.found_mounts.push_back({line.mount, cat("site.enroot_config, ", place), line.of_variable});
        else
            notes_.push_back(cat("site.enroot_config: ", place, " is left out: ", line.left_out));
    }

    /// What Enroot does not expand, the plan would.
    static std::string with_percent(const std::string& text) {
        std::string out;
        for (char c : text) out += cat(c == '%' ? "%" : "", std::string(1, c));
        return out;
    }

    plan::Site& site_;
    enroot::VariableValue value_;
    std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> add_enroot_config(plan::Site& site, const std::vector<std::string>& environment) {
    if (site.site.enroot_config.empty()) return {};
    return Reader(site, environment).read();
}

}  // namespace berth
