#include "runtime/host/accounts.hh"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t buffer_size = 16384;
constexpr size_t file_limit = 1 << 20;

/// Empty for what is missing, too large or cannot be read: libc is asked then.
std::string content_of(const char* path) try {
    Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY);
    return file ? sys::read_all(file.get(), file_limit, path) : std::string();
} catch (const Error&) {
    return {};
}

/// The fields of the first line whose third is `id`; a line with fewer than `least` is none, nor is one of the old form
/// for other sources (+, -).
std::vector<std::string> line_of(std::string_view text, uint32_t id, size_t least) {
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        at = end + 1;
        if (line.empty() || line[0] == '#' || line[0] == '+' || line[0] == '-') continue;
        // Few of many lines have the number anywhere.
        if (line.find(cat(':', id, ':')) == line.npos) continue;
        std::vector<std::string> fields = split(line, ':');
        if (fields.size() >= least && fields[2] == std::to_string(id) && !fields[0].empty()) return fields;
    }
    return {};
}

}  // namespace

std::optional<Account> account_in(std::string_view passwd, uid_t uid) {
    std::vector<std::string> fields = line_of(passwd, uid, 7);
    if (fields.empty()) return std::nullopt;
    return Account{fields[0], "", fields[4], fields[5], fields[6]};
}

std::optional<std::string> group_in(std::string_view file, gid_t gid) {
    std::vector<std::string> fields = line_of(file, gid, 4);
    if (fields.empty()) return std::nullopt;
    return fields[0];
}

bool asks_files_first(std::string_view nsswitch, std::string_view database) {
    for (const std::string& line : split(nsswitch, '\n')) {
        std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
        if (!text.starts_with(database) || text.substr(database.size(), 1) != ":") continue;
        std::string_view sources = trimmed(text.substr(database.size() + 1));
        return sources.substr(0, sources.find_first_of(" \t[")) == "files";
    }
    return false;
}

namespace {

Account account_by_libc(uid_t uid) {
    char buffer[buffer_size];
    passwd account{}, *found = nullptr;
    if (::getpwuid_r(uid, &account, buffer, sizeof buffer, &found) != 0 || !found) return {};
    return {found->pw_name, "", found->pw_gecos, found->pw_dir, found->pw_shell};
}

std::string group_by_libc(gid_t gid) {
    char buffer[buffer_size];
    group entry{}, *found = nullptr;
    return ::getgrgid_r(gid, &entry, buffer, sizeof buffer, &found) == 0 && found ? found->gr_name : "";
}

}  // namespace

Account account_of(uid_t uid, gid_t gid) {
    std::string sources = content_of("/etc/nsswitch.conf");
    std::optional<Account> account;
    std::optional<std::string> group;
    if (asks_files_first(sources, "passwd")) account = account_in(content_of("/etc/passwd"), uid);
    if (asks_files_first(sources, "group")) group = group_in(content_of("/etc/group"), gid);
    if (!account) account = account_by_libc(uid);
    account->group = group ? *group : group_by_libc(gid);
    return *account;
}

}  // namespace berth
