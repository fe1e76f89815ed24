// A site's own hooks: programs of a folder that are asked for changes of a container, each with the request as JSON on
// its standard input (man/berth-hooks.7), or as Enroot runs it. A folder or program that others than root can write to
// is refused.
#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "hooks/makers.hh"
#include "hooks/pull_reader.hh"
#include "hooks/site/enroot_hook.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/json_text.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/run_program.hh"

namespace berth::hooks {

namespace {

void check_owner(const struct stat& st, const std::string& path) {
    if (st.st_uid == 0 && (st.st_mode & 022) == 0) return;
    throw Error(cat("running the hooks of ", path, ": somebody else than root can write to it; run chown root ", path,
                    " and chmod go-w ", path));
}

/// {"NAME": "VALUE", ...}; of a name that is there twice the first counts, as for getenv.
std::string json_variables(const std::vector<std::string>& environment) {
    std::string out;
    std::set<std::string> seen;
    for (const std::string& text : environment) {
        size_t equals = text.find('=');
        if (equals == std::string::npos || !seen.insert(text.substr(0, equals)).second) continue;
        out += cat(out.empty() ? "" : ",", json_text(text.substr(0, equals)), ":", json_text(text.substr(equals + 1)));
    }
    return "{" + out + "}";
}

std::string request_text(const std::vector<std::string>& image_variables, const std::vector<std::string>& environment) {
    plan::Caller caller = caller_of_this_process();
    const char* job = variable(environment, "SLURM_JOB_ID");
    return cat("{\"version\":1,\"uid\":", caller.uid, ",\"gid\":", caller.gid, ",\"user\":", json_text(caller.user),
               ",\"group\":", json_text(caller.group), ",\"home\":", json_text(caller.home),
               ",\"job\":", json_text(job ? job : ""), ",\"imageEnvironment\":", json_variables(image_variables),
               ",\"environment\":", json_variables(environment), "}\n");
}

/// What it prints. Throws Error for one that fails.
std::string run_hook(const std::string& path, const std::string& request, const plan::Site& site,
                     const std::vector<std::string>* environment = nullptr) {
    debug::log("hooks", "running ", path);
    ProgramAnswer answer = run_program(path, {}, request, std::chrono::seconds(site.hooks.timeout), environment);
    debug::log("hooks", path, " ended with ", answer.code, ", bytes of output ", answer.output.size());
    std::string why = answer.complaint.empty() ? "" : ": " + answer.complaint;
    if (answer.code == -1)
        throw Error(cat("hook ", path, ": it took more than ", site.hooks.timeout,
                        " s (hooks.timeout) or wrote too much", why));
    if (answer.code != 0) throw Error(cat("hook ", path, ": it ended with ", answer.code, why));
    return answer.output;
}

plan::ContainerEdits edits_of_program(const std::string& path, const std::string& request, const DeviceRequest& asked,
                                      const plan::Origin& origin) {
    std::string answer = run_hook(path, request, asked.site);
    if (trimmed(answer).empty()) return {};
    return container_edits_of(read_by_pull({"--edits", path}, answer, path), asked.host, asked.image, origin);
}

plan::ContainerEdits edits_of_enroot_hook(const std::string& path, const DeviceRequest& asked,
                                          const plan::Origin& origin) {
    auto run = [&](const std::string& program, const std::vector<std::string>& environment) {
        (void)run_hook(program, "", asked.site, &environment);
    };
    EnrootHookFiles left = run_enroot_hook(path, asked.image_variables, asked.job, run);
    return enroot_hook_edits(enroot_environ(asked.image_variables), left, asked.site, origin);
}

void append(plan::ContainerEdits& out, const plan::ContainerEdits& more) {
    out.edits.insert(out.edits.end(), more.edits.begin(), more.edits.end());
    out.environment.insert(out.environment.end(), more.environment.begin(), more.environment.end());
    out.warnings.insert(out.warnings.end(), more.warnings.begin(), more.warnings.end());
}

/// In the order of their names.
plan::ContainerEdits make(const DeviceRequest& asked) {
    const plan::Site& site = asked.site;
    plan::ContainerEdits out;
    Fd folder = sys::open_if_exists(AT_FDCWD, site.hooks.folder, O_RDONLY | O_DIRECTORY);
    if (!folder) return out;
    check_owner(sys::stat_of(folder.get(), site.hooks.folder), site.hooks.folder);
    std::string request;
    for (const std::string& name : sys::list_directory(folder.get(), site.hooks.folder)) {
        struct stat st {};
        std::string path = site.hooks.folder + "/" + name;
        // What is not executable is switched off, or a note.
        if (name[0] == '.' || ::fstatat(folder.get(), name.c_str(), &st, 0) != 0 || !S_ISREG(st.st_mode) ||
            (st.st_mode & 0111) == 0)
            continue;
        check_owner(st, path);
        plan::Origin origin = plan::Origin::of_site("hook " + name);
        if (request.empty()) request = request_text(asked.image_variables, asked.job);
        append(out, is_enroot_hook(name) ? edits_of_enroot_hook(path, asked, origin)
                                         : edits_of_program(path, request, asked, origin));
    }
    return out;
}

/// What a program adds it says at a start alone.
DeviceList list(const DeviceListRequest& asked) {
    DeviceList out;
    const std::string& folder = asked.site.hooks.folder;
    if (!asked.host.list(folder).empty())
        out.notes.push_back(cat("the programs of ", folder, " may add others; berth plan IMAGE prints them"));
    return out;
}

constexpr const char* keys[] = {"hooks.folder"};

}  // namespace

extern const DeviceMaker site_maker{.vendor = "site", .make = make, .keys = keys, .list = list};

}  // namespace berth::hooks
