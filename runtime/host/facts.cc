#include "runtime/host/facts.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/accounts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/plan/policy.hh"

namespace berth {

plan::Caller caller_of_this_process() {
    plan::Caller caller;
    caller.uid = ::getuid();
    caller.gid = ::getgid();
    Account account = account_of(caller.uid, caller.gid);
    caller.user = account.user;
    caller.gecos = account.gecos;
    caller.home = account.home;
    caller.shell = account.shell;
    caller.group = account.group;
    if (const char* home = ::secure_getenv("HOME"); caller.home.empty() && home && home[0] == '/') {
        caller.home = home;
        caller.home_of_environment = true;
    }
    char buffer[PATH_MAX];
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (caller.terminal.empty() && ::ttyname_r(fd, buffer, sizeof buffer) == 0) caller.terminal = buffer;
    char directory[PATH_MAX];
    caller.cwd = ::getcwd(directory, sizeof directory) && directory[0] == '/' ? directory : "/";
    return caller;
}

namespace {

// The largest of the time zone database have 4 KiB.
constexpr size_t zone_limit = 64 << 10;

/// Of "/usr/share/zoneinfo/Europe/Berlin", or "../usr/...", the part behind the folder; empty for another link.
std::string zone_of(std::string_view link) {
    constexpr std::string_view folder = "/usr/share/zoneinfo/";
    if (link.starts_with("../usr/")) link.remove_prefix(2);
    if (!link.starts_with(folder)) return {};
    std::string path = plan::normalised(std::string(link));
    return path == link ? path.substr(folder.size()) : std::string();
}

/// Whether a file is not there, or not the user's to read. What else may fail is told: the start would be another one.
bool is_absent(int number) { return number == ENOENT || number == ENOTDIR || number == EACCES; }

void find_time_zone(plan::HostFacts& facts) {
    char link[PATH_MAX];
    ssize_t size = ::readlink("/etc/localtime", link, sizeof link);
    // EINVAL: no link.
    if (size < 0 && errno != EINVAL && !is_absent(errno)) throw SysError("reading the link /etc/localtime");
    std::string zone = size > 0 ? zone_of({link, static_cast<size_t>(size)}) : std::string();
    if (zone.empty()) return;
    Fd file = sys::try_open_at(AT_FDCWD, "/etc/localtime", O_RDONLY | O_NONBLOCK);
    if (!file && !is_absent(errno)) throw SysError("opening /etc/localtime");
    if (!file) return;
    struct stat st = sys::stat_of(file.get(), "/etc/localtime");
    if (!S_ISREG(st.st_mode) || st.st_size > static_cast<off_t>(zone_limit)) return;
    facts.zone_file = sys::read_all(file.get(), zone_limit, "/etc/localtime");
    facts.zone = zone;
}

}  // namespace

plan::HostFacts host_facts() {
    plan::HostFacts facts;
    find_time_zone(facts);
    for (const std::string& path : plan::host_paths())
        if (sys::may_access(path, F_OK)) facts.existing.push_back(path);
    facts.fuse = sys::may_access("/dev/fuse", R_OK | W_OK);
    for (const std::string& path : plan::masked_paths())
        if (sys::may_access(path, R_OK)) facts.readable.push_back(path);
    // The kernel gives these to root alone to write, which nobody else need find out.
    for (const std::string& path : ::geteuid() == 0 ? plan::read_only_paths() : std::vector<std::string>())
        if (sys::may_access(path, W_OK)) facts.writable.push_back(path);
    return facts;
}

plan::Plan plan_here(const plan::Request& request, const plan::Caller& caller, const plan::Job& job,
                     const plan::Site& site, const plan::ImageConfig& image,
                     const std::vector<plan::ContainerEdits>& devices) {
    plan::HostFacts facts = host_facts();
    if (plan::asks_for_groups(site)) facts.groups = groups_of_this_process();
    plan::Plan plan = plan::make_plan(request, caller, job, site, facts, image, devices);
    plan.sources = plan::judge_sources(site, plan.edits, real_paths(plan::policy_paths(site, plan.edits)));
    return plan;
}

void check_site_owner(int file, const std::string& path) {
    struct stat st = sys::stat_of(file, path);
    if (st.st_uid != 0 || (st.st_mode & 022) != 0)
        throw Error(cat("reading ", path, ": it can be written by somebody else than root; run chown root ", path,
                        " and chmod 644 ", path));
}

plan::Site load_site(const std::string& path) {
    Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY);
    if (!file) return {};
    check_site_owner(file.get(), path);
    return plan::parse_site(sys::read_all(file.get(), 1 << 20, path), path);
}

namespace {

struct Place {
    std::string path;
    bool of_home = false;  ///< in place of the built-in one
};

bool is_here(const std::string& path) { return sys::may_access(path, F_OK); }

/// Where root makes the folder it is there after the user's first job on the node; until then the home's cache does.
Place place_of_store(const plan::Site& site, const plan::Caller& caller) {
    std::string path = plan::path_for(site.store.path, caller), parent = path.substr(0, path.rfind('/'));
    bool built_in = site.store.path == plan::Site{}.store.path;
    if (!built_in || is_here(path) || sys::may_access(parent, W_OK)) return {path};
    if (!caller.home.empty()) return {caller.home + "/.cache/berth", true};
    throw Error(cat("opening the store ", path,
                    ": it is not there, and you have no home for another one; the plugin makes it in jobs, the site "
                    "sets store.path, a user sets BERTH_STORE_PATH"));
}

}  // namespace

store::Store open_store(const plan::Site& site, const plan::Caller& caller) {
    std::optional<uid_t> owner = site.store.shared.empty() ? std::nullopt : uid_of_account(site.store.shared_owner);
    return store::Store::open(
        store::make_location(place_of_store(site, caller).path, ::geteuid(), site.store.shared, owner));
}

bool has_store(const plan::Site& site, const plan::Caller& caller) {
    return is_here(place_of_store(site, caller).path);
}

std::string note_on_store(const plan::Site& site, const plan::Caller& caller) {
    Place place = place_of_store(site, caller);
    if (!place.of_home || is_here(place.path)) return {};
    return cat("images are kept in ", printable(place.path, 4096), ", since there is no ",
               plan::path_for(site.store.path, caller),
               " here, which your first job in a container makes on its node; BERTH_STORE_PATH names another folder");
}

}  // namespace berth
