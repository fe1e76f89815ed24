#include "runtime/apptainer/flags.hh"

#include <optional>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

constexpr Kind flag = Kind::flag, text = Kind::text, list = Kind::list, whole = Kind::whole;
constexpr Standing done = Standing::done, differs = Standing::differs, refused = Standing::refused;

constexpr const char* of_slurm = "limits are the job's; write srun --cpus-per-task, --mem and the like";
constexpr const char* of_dmtcp = "checkpoints are not made; have the program write its own, or run dmtcp_launch inside";
constexpr const char* of_registry = "a login is kept by apptainer registry login";
constexpr const char* of_plain_http =
    "the site names registries without TLS, by registries.HOST.plain_http of berth.conf";

constexpr Flag flags[] = {
    {"--add-caps", "ADD_CAPS", text, refused, "", "commands have no capabilities; --fakeroot has those for files"},
    {"--allow-setuid", "ALLOW_SETUID", flag, refused, "", "setuid programs get nobody's rights in a container"},
    {"--app", "APP APPNAME", text, done, "app of the image (SCIF): its environment, and what run and test start"},
    {"--apply-cgroups", "APPLY_CGROUPS", text, refused, "", of_slurm},
    {"--authfile", "AUTH_FILE", text, refused, "", "name the file by REGISTRY_AUTH_FILE"},
    {"-B,--bind", "BIND BINDPATH", whole, done,
     "SRC[:DST[:ro|rw|image-src=/]][,...]: mount a file or folder of the node, or what is in an image file", "", true},
    {"--blkio-weight", "BLKIO_WEIGHT", text, refused, "", of_slurm},
    {"--blkio-weight-device", "BLKIO_WEIGHT_DEVICE", list, refused, "", of_slurm},
    {"--cdi-dirs", "", list, refused, "", "the site names these folders, by devices.cdi_folders of berth.conf"},
    {"-e,--cleanenv", "CLEANENV", flag, done, "variables of the node do not get into the container"},
    {"--compat", "COMPAT", flag, done, "--containall, --no-init, --no-umask, --no-eval and --writable-tmpfs"},
    {"-c,--contain", "CONTAIN", flag, done, "empty /tmp, /var/tmp and home in place of the node's"},
    {"-C,--containall", "CONTAINALL", flag, done, "--contain, --pid, --ipc and --cleanenv"},
    {"--containlibs", "CONTAINLIBS", list, refused, "", "mount libraries by --bind, and name them in LD_LIBRARY_PATH"},
    {"--cpu-shares", "", text, refused, "", of_slurm},
    {"--cpus", "", text, refused, "", of_slurm},
    {"--cpuset-cpus", "CPUSET_CPUS", text, refused, "", of_slurm},
    {"--cpuset-mems", "CPUSET_MEMS", text, refused, "", of_slurm},
    {"--cwd", "CWD TARGET_CWD", text, done, "directory in the container in which the command begins"},
    {"--device", "", list, done, "devices by their CDI names, vendor.com/class=name"},
    {"--disable-cache", "DISABLE_CACHE", flag, differs, "an image of a registry is kept in the store all the same",
     "An image of a registry is kept in the store all the same, which a line says."},
    {"--dmtcp-launch", "DMTCP_LAUNCH", text, refused, "", of_dmtcp},
    {"--dmtcp-restart", "DMTCP_RESTART", text, refused, "", of_dmtcp},
    {"--dns", "DNS", text, done, "ADDRESS,...: name servers, in place of the node's"},
    {"--docker-host", "DOCKER_HOST", text, refused, "", "set DOCKER_HOST"},
    {"--docker-login", "DOCKER_LOGIN", flag, refused, "", of_registry},
    {"--docker-password", "DOCKER_PASSWORD", text, refused, "", of_registry},
    {"--docker-username", "DOCKER_USERNAME", text, refused, "", of_registry},
    {"--drop-caps", "DROP_CAPS", text, differs, "commands have no capabilities anyway",
     "Commands have no capabilities anyway; with --fakeroot they keep those for files."},
    {"--env", "", whole, done, "NAME=VALUE[,...]: set variables in the container"},
    {"--env-file", "ENV_FILE", list, differs, "file with lines NAME=VALUE: set these variables in the container",
     "Its lines are NAME=VALUE, with quotes or without; anything else in it is refused, since no shell reads it."},
    {"-f,--fakeroot", "FAKEROOT", flag, differs, "be root in the container",
     "Root is the one account that files can belong to; /etc/subuid is not used."},
    {"--fusemount", "FUSESPEC", whole, refused, "", "mount it on the node, and pass it in by --bind"},
    {"-H,--home", "HOME", text, done, "SRC[:DST]: the home"},
    {"--hostname", "HOSTNAME", text, done, "host name of the container; implies --uts"},
    {"--ignore-fakeroot-command", "IGNORE_FAKEROOT_COMMAND", flag, differs, "nothing changes: it is never used",
     "The command fakeroot is never used."},
    {"--ignore-subuid", "IGNORE_SUBUID", flag, differs, "nothing changes: /etc/subuid is never used",
     "/etc/subuid is never used."},
    {"--ignore-userns", "IGNORE_USERNS", flag, refused, "", "every container has a user namespace"},
    {"--intel-hpu", "INTEL_HPU", flag, refused, "", "name the devices by --device, with a CDI specification of theirs"},
    {"-i,--ipc", "IPC UNSHARE_IPC", flag, done, "own shared memory and message queues"},
    {"--keep-privs", "KEEP_PRIVS", flag, refused, "", "nobody has privileges over the node in a container"},
    {"--memory", "MEMORY", text, refused, "", of_slurm},
    {"--memory-reservation", "MEMORY_RESERVATION", text, refused, "", of_slurm},
    {"--memory-swap", "MEMORY_SWAP", text, refused, "", of_slurm},
    {"--mount", "MOUNT", whole, done, "type=bind,source=SRC,destination=DST[,ro][,image-src=/]: as --bind",
     "", true},
    {"-n,--net", "NET UNSHARE_NET", flag, differs, "a network of its own; with --network none",
     "A network of its own has nothing but loopback: --network none is to be written beside it."},
    {"--netns-path", "NETNS_PATH", text, refused, "", "other network namespaces are not entered"},
    {"--network", "NETWORK", text, differs, "none: nothing but loopback; host: the node's",
     "none and host; networks of CNI, which need root, are refused."},
    {"--network-args", "NETWORK_ARGS", list, refused, "", "networks of CNI need root; write --network none"},
    {"--no-env", "NOENV", list, done, "NAME,...: these variables of the node do not get into the container"},
    {"--no-eval", "NO_EVAL", flag, done, "$NAME in values of --env stands for itself"},
    {"--no-home", "NO_HOME", flag, done, "do not mount the home"},
    {"--no-https", "NOHTTPS NO_HTTPS", flag, refused, "", of_plain_http},
    {"--no-init", "NOSHIMINIT", flag, differs, "nothing changes: with --pid there is a first process all the same",
     "With --pid there is a first process all the same, which ends others and takes orphans."},
    {"--no-mount", "NO_MOUNT", list, differs, "home, tmp, cwd, bind-paths, /etc/hosts and the like: do not mount these",
     "home, tmp, cwd, bind-paths and files such as /etc/hosts; proc, sys, dev and devpts are refused."},
    {"--no-nv", "NV_OFF NO_NV", flag, done, "no NVIDIA GPUs, whatever the image asks for"},
    {"--no-pid", "NO_PID", flag, done, "take --pid back"},
    {"--no-privs", "NO_PRIVS", flag, differs, "nothing changes: there are no privileges",
     "There are no privileges in any case."},
    {"--no-rocm", "ROCM_OFF NO_ROCM", flag, done, "no AMD GPUs, whatever the image asks for"},
    {"--no-umask", "NO_UMASK", flag, done, "the umask is 0022"},
    {"--nohttps", "", flag, refused, "", of_plain_http},
    {"--nv", "NV", flag, differs, "NVIDIA GPUs: those of the job, or all of them",
     "In a job they are those that the step was granted. An image that asks for GPUs by NVIDIA_VISIBLE_DEVICES has "
     "them without it."},
    {"--nvccli", "NVCCLI", flag, differs, "the same as --nv", "The same as --nv; nvidia-container-cli is not used."},
    {"--oom-kill-disable", "OOM_KILL_DISABLE", flag, refused, "", of_slurm},
    {"-o,--overlay", "OVERLAY OVERLAYIMAGE", list, differs,
     "folder that takes what is written to the image's files, or FOLDER:ro or a squashfs file that lies over them",
     "Folders and squashfs files, several, one folder of them to be written to; an ext3 image is refused."},
    {"--passphrase", "", flag, refused, "", "encrypted images are not opened"},
    {"--pem-path", "", text, refused, "", "encrypted images are not opened"},
    {"-p,--pid", "PID UNSHARE_PID", flag, done, "processes of its own"},
    {"--pids-limit", "PIDS_LIMIT", text, refused, "", of_slurm},
    {"--pwd", "PWD TARGET_PWD", text, done, "the same as --cwd"},
    {"--rocm", "ROCM", flag, differs, "AMD GPUs: those of the job, or all of them",
     "In a job they are those that the step was granted. What is mounted of ROCm is as in berth-hooks(7)."},
    {"--runscript-timeout", "RUNSCRIPT_TIMEOUT", text, refused, "", "write timeout(1) before the command"},
    {"-S,--scratch", "SCRATCH SCRATCHDIR", list, done, "empty folder in the container, gone with it"},
    {"--security", "SECURITY", list, refused, "", "the site's system call filter holds, see berth.conf(5)"},
    {"--sharens", "SHARENS", flag, differs, "share a container within a step, with what each would have for itself",
     "In a step, where processes share a container without it unless each would have a memory or namespaces of its "
     "own, which it makes common too. Elsewhere it is refused."},
    {"-s,--shell", "SHELL", text, done, "of apptainer shell: the program to run in place of bash or sh"},
    {"--tmpdir", "TMPDIR", text, differs, "nothing changes: nothing is built",
     "Images are in the store, where store.path of berth.conf says; a line says so."},
    {"--underlay", "UNDERLAY", flag, differs, "nothing changes: mount points are made in any case",
     "Mount points are made in any case."},
    {"--unsquash", "UNSQUASH", flag, differs, "nothing changes: the image is served as it lies",
     "The image is served as it lies; where it cannot be, it is extracted."},
    {"-u,--userns", "USERNS UNSHARE_USERNS", flag, done, "a user namespace, which every container has"},
    {"--uts", "UTS UNSHARE_UTS", flag, done, "a host name of its own"},
    {"-W,--workdir", "WORKDIR", text, done, "folder for /tmp, /var/tmp and the home of --contain, and for --scratch"},
    {"-w,--writable", "WRITABLE", flag, done, "write to an image that is a directory"},
    {"--writable-tmpfs", "WRITABLE_TMPFS", flag, done, "a root file system that can be written to, in memory"},
};

constexpr const char* prefixes[] = {"APPTAINER_", "SINGULARITY_"};

/// The words that strconv.ParseBool of Go takes, which reads them there.
std::optional<bool> truth(std::string_view word) {
    for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"})
        if (word == yes) return true;
    for (const char* no : {"0", "f", "F", "false", "FALSE", "False"})
        if (word == no) return false;
    return std::nullopt;
}

void add_value(Given& given, const Flag& row, const std::string& variable, const std::string& value) {
    std::vector<std::string>& values = given[row.name()];
    if (row.kind != Kind::flag) return values.push_back(value);
    auto yes = truth(value);
    if (!yes) throw Error(cat(variable, "=", printable(value), ": write true or false"));
    if (*yes)
        values = {""};
    else
        given.erase(row.name());
}

/// Of the first name that has a value, with the first prefix; for a flag whose variables add, of each name.
void add_variables_of(Given& given, const Flag& row, const std::vector<std::string>& environment) {
    for (const std::string& name : split(row.variables, ' '))
        for (const char* prefix : prefixes) {
            std::string variable = cat(prefix, name), value(trimmed(value_in(environment, variable)));
            if (name.empty() || value.empty()) continue;
            add_value(given, row, variable, value);
            if (!row.adds_variable) return;
            break;
        }
}

/// About logins and transport, of no concern to an image that is a file.
bool is_of_registry(std::string_view name) {
    return name.starts_with("docker-") || name == "no-https" || name == "nohttps";
}

}  // namespace

std::string Flag::name() const {
    std::string_view all = names;
    return std::string(all.substr(all.find("--") + 2));
}

std::span<const Flag> action_flags() { return flags; }

void add_variables(Given& given, const std::vector<std::string>& environment) {
    for (const Flag& row : flags)
        if (row.adds_variable || !given.contains(row.name())) add_variables_of(given, row, environment);
}

void refuse_flags(const Given& given, bool is_file) {
    for (const Flag& row : flags)
        if (row.standing == Standing::refused && given.contains(row.name()) && !(is_file && is_of_registry(row.name())))
            throw Error(cat("--", row.name(), ": ", row.word));
}

std::vector<std::string> csv_fields(std::string_view text) {
    std::vector<std::string> out(1);
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"') {
            bool is_quote = quoted && i + 1 < text.size() && text[i + 1] == '"';
            if (is_quote)
                out.back() += text[i++];
            else
                quoted = !quoted;
        } else if (text[i] == ',' && !quoted) {
            out.emplace_back();
        } else {
            out.back() += text[i];
        }
    }
    if (quoted) throw Error(cat(printable(text, 1024), ": a \" is left open"));
    return out;
}

}  // namespace berth::apptainer
