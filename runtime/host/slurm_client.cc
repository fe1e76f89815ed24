#include "runtime/host/slurm_client.hh"

#include <pwd.h>
#include <unistd.h>

#include "runtime/base/access.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr const char* commands[] = {"srun",     "sbatch", "salloc", "scancel", "squeue", "sinfo",
                                    "scontrol", "sacct",  "sstat",  "sattach", "sbcast"};
constexpr const char* prefixes[] = {"/usr", "/usr/local", "/opt/slurm"};
#if defined(__x86_64__)
constexpr const char* library_folders[] = {"/lib/x86_64-linux-gnu/", "/lib64/", "/lib/"};
#else
constexpr const char* library_folders[] = {"/lib/aarch64-linux-gnu/", "/lib64/", "/lib/"};
#endif
/// Slurm's plugins with its library, and the library by which they ask munge.
constexpr const char* munge_library = "libmunge.so.2";
constexpr const char* libraries[] = {"slurm-wlm", "slurm", munge_library};

}  // namespace

void add_slurm_client(plan::Job& job, const plan::Site& site, const std::string& prefix) {
    if (!site.slurm.client_in_container) return;
    plan::Origin origin = plan::Origin::of_site("slurm");
    auto add = [&](const std::string& path) {
        if (!sys::may_access(path, F_OK)) return false;
        job.bind_read_only.push_back({path, origin});
        return true;
    };
    std::vector<std::string> places(std::begin(prefixes), std::end(prefixes));
    // Commands and libraries of another release beside it are none for this cluster.
    bool elsewhere = !prefix.empty() && prefix != "/usr" && ::access(cat(prefix, "/bin/srun").c_str(), F_OK) == 0;
    if (elsewhere) places = {prefix};
    for (const char* command : commands)
        for (const std::string& place : places)
            if (add(cat(place, "/bin/", command))) break;
    for (const char* library : libraries)
        for (const std::string& place : places)
            for (const char* folder : library_folders) add(cat(place, folder, library));
    for (const char* folder : library_folders)
        if (elsewhere) add(cat("/usr", folder, munge_library));
    for (const char* path : {"/etc/slurm", "/run/munge", "/run/slurm/conf"}) add(path);
    if (site.set_by_user("slurm.client_files")) origin = "variable BERTH_SLURM_CLIENT_FILES";
    for (const std::string& path : site.slurm.client_files) add(path);
    // slurm.conf names its user, whom the commands look up before anything else.
    if (const passwd* account = ::getpwnam("slurm"))
        job.accounts.push_back(cat("slurm:x:", account->pw_uid, ":", account->pw_gid, "::/:/bin/false"));
}

}  // namespace berth
