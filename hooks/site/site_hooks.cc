#include "hooks/site/site_hooks.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "hooks/nvidia/request.hh"
#include "runtime/base/error.hh"
#include "runtime/base/json_text.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/host/run_program.hh"

namespace berth {

namespace {

constexpr auto reader_patience = std::chrono::seconds(10);

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
    const char* job = hooks::variable(environment, "SLURM_JOB_ID");
    return cat("{\"version\":1,\"uid\":", caller.uid, ",\"gid\":", caller.gid, ",\"user\":", json_text(caller.user),
               ",\"group\":", json_text(caller.group), ",\"home\":", json_text(caller.home),
               ",\"job\":", json_text(job ? job : ""), ",\"imageEnvironment\":", json_variables(image_variables),
               ",\"environment\":", json_variables(environment), "}\n");
}

/// What the program that reads JSON makes of it.
hooks::DeviceEdits read_by_pull(std::vector<std::string> arguments, const std::string& input, const std::string& what) {
    arguments.insert(arguments.begin(), "cdi");
    ProgramAnswer answer = run_program(pull_program(), arguments, input, reader_patience);
    if (answer.code != 0)
        throw Error(answer.complaint.starts_with("berth: ")
                        ? answer.complaint.substr(7)
                        : cat("reading ", what, ": berth-pull failed: ", answer.complaint));
    return hooks::parse_device_edits(answer.output, what);
}

void run_hook(plan::Additions& out, const std::string& path, const std::string& request, const hooks::Host& host,
              const hooks::Rootfs& image, const plan::Site& site) {
    ProgramAnswer answer = run_program(path, {}, request, std::chrono::seconds(site.hooks.timeout));
    std::string why = answer.complaint.empty() ? "" : ": " + answer.complaint;
    if (answer.code == -1)
        throw Error(cat("hook ", path, ": it took more than ", site.hooks.timeout,
                        " s (hooks.timeout) or wrote too much", why));
    if (answer.code != 0) throw Error(cat("hook ", path, ": it ended with ", answer.code, why));
    if (trimmed(answer.output).empty()) return;
    append(out, hooks::additions_of(read_by_pull({"--edits", path}, answer.output, path), host, image,
                                    "hook " + path.substr(path.rfind('/') + 1)));
}

}  // namespace

void append(plan::Additions& out, const plan::Additions& more) {
    out.edits.insert(out.edits.end(), more.edits.begin(), more.edits.end());
    out.environment.insert(out.environment.end(), more.environment.begin(), more.environment.end());
    out.devices.insert(out.devices.end(), more.devices.begin(), more.devices.end());
    out.warnings.insert(out.warnings.end(), more.warnings.begin(), more.warnings.end());
}

void add_site_hooks(plan::Additions& out, const hooks::Host& host, const hooks::Rootfs& image, const plan::Site& site,
                    const std::vector<std::string>& image_variables, const std::vector<std::string>& environment) {
    Fd folder = sys::open_if_exists(AT_FDCWD, site.hooks.folder, O_RDONLY | O_DIRECTORY);
    if (!folder) return;
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
        if (request.empty()) request = request_text(image_variables, environment);
        run_hook(out, path, request, host, image, site);
    }
}

void add_cdi_devices(plan::Additions& out, const hooks::Host& host, const hooks::Rootfs& image, const plan::Site& site,
                     const std::vector<std::string>& environment) {
    std::vector<std::string> names = site.devices.cdi;
    if (const char* asked = hooks::variable(environment, "BERTH_DEVICES"))
        for (const std::string& part : split(asked, ','))
            if (std::string name(trimmed(part)); !name.empty()) names.push_back(name);
    if (names.empty()) return;
    std::vector<std::string> arguments;
    for (const std::string& folder : site.devices.cdi_folders) arguments.insert(arguments.end(), {"--folder", folder});
    arguments.push_back("--");
    arguments.insert(arguments.end(), names.begin(), names.end());
    hooks::DeviceEdits edits = read_by_pull(arguments, "", "the CDI specifications");
    // What hook nvidia shows of the driver is all that the container has of it, these devices among the rest.
    if (hooks::shows_driver(out)) edits.keep_nodes = edits.application_profile = false;
    append(out, hooks::additions_of(edits, host, image, "CDI"));
}

}  // namespace berth
