#include "runtime/plan/plan.hh"

#include <linux/capability.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/plan/mount_edit.hh"
#include "runtime/plan/policy.hh"
#include "runtime/plan/system_edits.hh"

namespace berth::plan {

bool HostFacts::has(const std::string& path) const {
    return std::find(existing.begin(), existing.end(), path) != existing.end();
}

namespace {

const Origin by_slurm = Origin::of_site("slurm");

/// A field of an account line may hold neither its separators nor a line end.
std::string account_field(std::string text) {
    std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c == ':' || c < 0x20; }, '_');
    return text;
}

/// The account's, unless the image has only another one, or nothing is known of the image.
std::string shell_inside(const Plan& plan, const Caller& caller) {
    if (!caller.shell_of_image.empty()) return caller.shell_of_image;
    return caller.shell.empty() || plan.remap_root ? "/bin/sh" : caller.shell;
}

void add_accounts(EditList& edits, const Plan& plan, const Caller& caller, const std::string& home) {
    const Identity& id = plan.identity;
    std::string user = plan.remap_root       ? "root"
                       : caller.user.empty() ? cat("user", id.inside_uid)
                                             : account_field(caller.user);
    std::string group = plan.remap_root        ? "root"
                        : caller.group.empty() ? cat("group", id.inside_gid)
                                               : account_field(caller.group);
    std::string shell = account_field(shell_inside(plan, caller));
    AccountLine passwd{"/etc/passwd",
                       cat(user, ":x:", id.inside_uid, ":", id.inside_gid, ":", account_field(caller.gecos), ":",
                           account_field(home), ":", shell),
                       2};
    edits.add(passwd, by_berth, "the caller's name");
    // A server of ssh asks PAM, which wants a line for each account of /etc/passwd.
    if (!plan.remap_root)
        edits.add(AccountLine{"/etc/shadow", cat(user, ":*:::::::"), 0, true}, by_berth, "no password, for PAM");
    edits.add(AccountLine{"/etc/group", cat(group, ":x:", id.inside_gid, ":"), 2}, by_berth, "the caller's group");
}

/// HOME inside: /root for root, else as outside.
std::string home_inside(const Plan& plan, const Caller& caller) {
    if (plan.remap_root) return "/root";
    return caller.home.empty() ? "/" : normalised(caller.home);
}

/// Who has chosen that the home is mounted, and where it is.
Origin origin_of_home(const Request& request, const Site& site, const Caller& caller) {
    if (request.mount_home) return "option --container-mount-home";
    if (site.set_by_user("defaults.mount_home")) return "variable BERTH_DEFAULTS_MOUNT_HOME";
    return caller.home_of_environment ? Origin("variable HOME") : Origin::of_site("site");
}

void add_mounted_home(EditList& edits, const Request& request, const Site& site, const std::string& home,
                      const Caller& caller) {
    Mount& mount = edits.bind(caller.home, home, origin_of_home(request, site, caller), "the caller's home");
    mount.create = Mount::Create::directory;
    mount.propagation = site.defaults.mount_propagation;
}

bool mounts_home(const Request& request, const Site& site, const std::string& home, const Caller& caller) {
    return home != "/" && request.mount_home.value_or(site.defaults.mount_home) && !caller.home.empty();
}

void add_home(EditList& edits, const Request& request, const Site& site, const std::string& home,
              const Caller& caller) {
    if (home == "/") return;
    if (mounts_home(request, site, home, caller))
        add_mounted_home(edits, request, site, home, caller);
    else if (site.defaults.home == Home::skel)
        edits.add(Directory{home, 0755, true}, by_berth, "a home with the files of /etc/skel");
    else
        edits.add(Directory{home, 0755}, by_berth, "an empty home");
}

void add_user_mounts(EditList& edits, const Request& request, const Site& site, const Caller& caller) {
    for (const MountRequest& wanted : request.mounts)
        add_mount(edits, with_absolute_source(wanted, caller), caller.cwd, site, "option --container-mounts");
}

/// Who has chosen what a mount of the site takes: where a folder's name is the user's or the job's, they may have put a
/// link there, and the home is the job's to say.
Origin origin_of_site_mount(const std::string& source) {
    const std::string origin = "site.mounts";
    if (source.find("%h") != std::string::npos) return origin;
    return source.find('%') == std::string::npos ? Origin::of_site(origin) : Origin::of_site_in_shared_folder(origin);
}

/// Outside of a job there is nothing at a path that has the job's number.
void add_site_mounts(EditList& edits, const Site& site, const Caller& caller, const Job& job) {
    for (const std::string& text : site.site.mounts)
        for (MountRequest wanted : parse_mounts(text)) {
            Origin origin = origin_of_site_mount(wanted.source);
            auto source = path_for(wanted.source, caller, job), target = path_for(wanted.target, caller, job);
            if (!source || !target) continue;
            wanted.source = *source;
            wanted.target = *target;
            add_mount(edits, wanted, "/", site, origin);
        }
    for (const FoundMount& found : site.site.found_mounts)
        add_mount(edits, found.mount, "/", site, found.of_job ? Origin(found.origin) : Origin::of_site(found.origin));
}

/// The folder of Slurm's commands where they are mounted; empty when they are not.
std::string folder_of_commands(const Job& job) {
    for (const JobPath& file : job.bind_read_only)
        if (file.path.ends_with("/bin/srun")) return file.path.substr(0, file.path.rfind('/'));
    return {};
}

/// The image's PATH, or the site's, or the usual one, so that Slurm's commands are found too. Nothing when the image's
/// is right.
std::optional<std::string> wanted_path(const Request& request, const EnvironmentRules& rules, const Job& job) {
    std::optional<std::string> of_image;
    for (const std::vector<std::string>* variables : {&rules.image, &rules.site})
        for (const std::string& text : *variables)
            if (text.starts_with("PATH=")) of_image = text.substr(5);
    std::string path = of_image.value_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    std::string commands = folder_of_commands(job);
    std::vector<std::string> folders = split(path, ':');
    bool kept = std::find(request.env.begin(), request.env.end(), "PATH") != request.env.end();
    bool finds = commands.empty() || std::find(folders.begin(), folders.end(), commands) != folders.end();
    if (finds || kept) return of_image ? std::nullopt : std::optional(path);
    return cat(path, ':', commands);
}

/// The account's shell is not in the image, and the user has not said that his is right all the same.
bool changes_shell(const Request& request, const Caller& caller) {
    return !caller.shell_of_image.empty() && caller.shell_of_image != caller.shell &&
           std::find(request.env.begin(), request.env.end(), "SHELL") == request.env.end();
}

EnvironmentRules environment_rules(const Plan& plan, const Request& request, const Site& site, const Caller& caller,
                                   const ImageConfig& image, const std::string& home, const Job& job) {
    EnvironmentRules rules;
    rules.image = image.env;
    for (const std::string& text : site_variables(site, image.env))
        if (auto variable = path_for(text, caller, job)) rules.site.push_back(*variable);
    rules.keep_host = request.env;
    rules.user = request.variables;
    // The host's locale is seldom in the image, and programs complain about that at each start.
    rules.remove = {"LANG", "LANGUAGE", "LC_ALL"};
    bool image_has_home = std::any_of(image.env.begin(), image.env.end(),
                                      [](const std::string& text) { return text.starts_with("HOME="); });
    if (plan.remap_root && !image_has_home) rules.set = {cat("HOME=", home)};
    if (changes_shell(request, caller)) rules.set.push_back("SHELL=" + caller.shell_of_image);
    if (auto path = wanted_path(request, rules, job)) rules.set.push_back("PATH=" + *path);
    rules.account = {cat("HOME=", home), cat("SHELL=", shell_inside(plan, caller))};
    for (const char* name : {"USER=", "LOGNAME="})
        if (!caller.user.empty()) rules.account.push_back(name + caller.user);
    // Slurm's own link to what slurmd was handed.
    const std::string handed = "/run/slurm/conf";
    if (std::any_of(job.bind_read_only.begin(), job.bind_read_only.end(),
                    [&](const JobPath& file) { return file.path == handed; }))
        rules.slurm_conf = handed + "/slurm.conf";
    return rules;
}

void set_workdir(Plan& plan, const Request& request, const ImageConfig& image) {
    plan.workdir_required = request.workdir.has_value();
    std::string asked = request.workdir ? *request.workdir : image.working_dir;
    plan.workdir = asked.empty() ? "/" : normalised(asked[0] == '/' ? asked : "/" + asked);
    if (plan.workdir == "/proc" || plan.workdir.starts_with("/proc/"))
        throw Error(
            cat("the working directory ", printable(plan.workdir), " of the ",
                request.workdir ? "option --container-workdir" : "image",
                " lies below /proc and could lead out of the container; use --container-workdir to name another one"));
}

/// What programs call that mount, in a namespace that they may mount in.
const std::vector<std::string> mount_calls = {"mount",     "umount2", "pivot_root", "unshare",
                                              "setns",     "fsopen",  "fsconfig",   "fsmount",
                                              "fspick",    "move_mount", "open_tree", "mount_setattr"};

void allow(SystemCalls& calls, const std::vector<std::string>& names) {
    calls.allow.insert(calls.allow.end(), names.begin(), names.end());
}

void set_nested(Plan& plan, const Request& request, const Site& site) {
    plan.nested = request.nested.value_or(site.security.nested == Nested::always);
    if (plan.nested) allow(plan.system_calls, nesting_calls());
}

/// Package managers write into directories that nobody may write to (0555 in images of the Red Hat family) and change
/// root for their scripts. These hold for the user's own files and for nothing else: no other id is mapped.
///
/// Where the site says "mount", also mount and what programs do before it: a mount namespace of their own.
void set_capabilities(Plan& plan, const Site& site) {
    for (int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP, CAP_SYS_CHROOT})
        if (plan.remap_root) plan.capabilities |= 1ULL << capability;
    if (!plan.remap_root || site.security.root_capabilities != RootCapabilities::mount) return;
    plan.capabilities |= 1ULL << CAP_SYS_ADMIN;
    allow(plan.system_calls, mount_calls);
}

/// A step's tasks stay in the node's pid namespace (docs/adr/0081), and each makes a cgroup namespace of its own
/// (0108); steps may join a container with a name.
bool is_shared_with_steps(const NamespaceKind& kind) {
    return kind.type != CLONE_NEWPID && kind.type != CLONE_NEWCGROUP;
}

/// What is asked for, and what the site wants.
OwnNamespaces own_namespaces(const Request& request, const Job& job, const Site& site) {
    OwnNamespaces out = request.unshare;
    for (const std::string& word : site.defaults.unshare)
        for (const NamespaceKind& kind : namespace_kinds)
            if (word == kind.word && (is_shared_with_steps(kind) || (job.id.empty() && !request.name)))
                out.*kind.wanted = true;
    return out;
}

/// Of Slurm, on the node: what its commands and MPI programs look for.
void add_job_files(EditList& edits, const Job& job) {
    for (const JobPath& file : job.bind_read_only) {
        Mount& mount = edits.bind(file.path, file.path, file.origin, "a file of the job's or of Slurm's");
        mount.read_only = true;
    }
    for (const std::string& line : job.accounts)
        edits.add(AccountLine{"/etc/passwd", line, 2}, by_slurm, "an account that Slurm's commands look for");
    for (const JobPath& folder : job.shared_folders) {
        Mount& mount =
            edits.bind(folder.path, folder.path, folder.origin, "where MPI programs meet Slurm's server");
        mount.no_exec = true;
        mount.optional = true;
        mount.create = Mount::Create::directory;
    }
}

}  // namespace

const std::vector<std::string>& nesting_calls() {
    // Containers and sandboxes begin with clone, and have names of hosts of their own. They give up capabilities that
    // they have in their namespaces, which must not be pretended for root inside.
    static const std::vector<std::string> names = [] {
        std::vector<std::string> out = mount_calls;
        for (const char* call : {"clone", "umount", "sethostname", "setdomainname", "capset"}) out.emplace_back(call);
        return out;
    }();
    return names;
}

DeviceGrant device_grant(const std::vector<ContainerEdits>& made) {
    DeviceGrant out;
    for (const ContainerEdits& one : made) {
        if (!one.granted) continue;
        for (const Edit& edit : one.edits)
            if (const auto* mount = std::get_if<Mount>(&edit.action); mount && mount->kind == Mount::Kind::bind)
                out.files.push_back(mount->source);
        if (!one.devices.empty()) out.devices.push_back({one.vendor, one.variables, one.devices});
    }
    std::ranges::sort(out.files);
    out.files.erase(std::unique(out.files.begin(), out.files.end()), out.files.end());
    return out;
}

Plan make_plan(const Request& request, const Caller& caller, const Job& job, const Site& site, const HostFacts& host,
               const ImageConfig& image, const std::vector<ContainerEdits>& devices) {
    check_request(site, request, caller, host);
    Plan plan;
    plan.remap_root = request.remap_root.value_or(site.defaults.remap_root && may_remap_root(site, caller, host));
    plan.system_calls = {site.security.seccomp == plan::Seccomp::built_in, site.security.seccomp_allow,
                         site.security.seccomp_deny, site.security.fake_chown};
    set_capabilities(plan, site);
    set_nested(plan, request, site);
    plan.writable = request.writable.value_or(site.defaults.writable && may_write(site, caller, host));
    plan.unshare = own_namespaces(request, job, site);
    for (const MountRequest& wanted : request.mounts)
        plan.mounts.push_back(mount_key(with_absolute_source(wanted, caller)));
    plan.tmpfs_size = site.limits.tmpfs_size;
    plan.sources.everything = allows_all_sources(site);
    plan.identity = {caller.uid, plan.remap_root ? 0 : caller.uid, caller.gid, plan.remap_root ? 0 : caller.gid};
    std::string home = home_inside(plan, caller);

    EditList edits(plan.edits);
    add_system(edits, {.own = plan.unshare,
                       .asked = request.unshare,
                       .terminal = caller.terminal,
                       .node_terminals = job.has_terminal,
                       .nested = plan.nested,
                       .site = site,
                       .host = host,
                       .image = image});
    add_accounts(edits, plan, caller, home);
    plan.mount_home = mounts_home(request, site, home, caller);
    add_home(edits, request, site, home, caller);
    if (plan.remap_root)
        edits.add(DropIn{"/etc/apt/apt.conf.d/99berth", "APT::Sandbox::User \"root\";\n"},
                  "option --container-remap-root",
                  "apt checks that it has become another user, which is only faked here");
    add_job_files(edits, job);
    for (const ContainerEdits& made : devices)
        for (const Edit& edit : made.edits) edits.add(edit.action, edit.origin, edit.reason);
    add_site_mounts(edits, site, caller, job);
    add_user_mounts(edits, request, site, caller);

    set_workdir(plan, request, image);
    plan.environment = environment_rules(plan, request, site, caller, image, home, job);
    plan.entrypoint = image.entrypoint;
    plan.granted = device_grant(devices).files;
    for (const ContainerEdits& made : devices) {
        plan.environment.set.insert(plan.environment.set.end(), made.environment.begin(), made.environment.end());
        if (!made.devices.empty()) plan.devices.push_back({made.vendor, made.variables, made.devices});
    }
    plan.command = image.entrypoint;
    plan.command.insert(plan.command.end(), image.cmd.begin(), image.cmd.end());
    return plan;
}

}  // namespace berth::plan
