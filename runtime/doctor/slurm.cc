// What `berth doctor` looks at of Slurm: the release, the plugstack files, and for which release the plugin was built.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/doctor/doctor.hh"
#include "runtime/doctor/plugin_version.hh"
#include "runtime/doctor/plugstack.hh"
#include "runtime/doctor/site_settings.hh"
#include "runtime/doctor/slurm_conf.hh"

namespace berth {

namespace {

constexpr size_t text_limit = 1 << 20;

std::string in_path(const std::string& program) {
    const char* path = std::getenv("PATH");
    for (const std::string& directory :
         split(cat(path ? path : "/usr/local/bin:/usr/bin:/bin", ":/usr/local/sbin:/usr/sbin"), ':'))
        if (std::string file = cat(directory, "/", program);
            directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0)
            return file;
    return {};
}

bool is_configured() {
    for (const std::string& folder : slurm_folders())
        if (::access((folder + "/slurm.conf").c_str(), R_OK) == 0) return true;
    return false;
}

/// slurmd tells its release without a configuration, the commands of users want one first.
std::string slurm_program() {
    std::string program = in_path("slurmd");
    return program.empty() && is_configured() ? in_path("srun") : program;
}

/// The last word of `slurm-wlm 22.05.8` or `slurm 23.11.4`.
std::string slurm_version() {
    std::string program = slurm_program();
    if (program.empty()) return {};
    Child child(program, {"-V"});
    std::string text(trimmed(sys::read_all(child.output(), 4096, "the version of Slurm")));
    return child.wait() == 0 ? text.substr(text.rfind(' ') + 1) : "";
}

/// Slurm looks for a plugin without a path in PluginDir.
std::string locate(const std::string& name) {
    if (name.starts_with('/')) return ::access(name.c_str(), F_OK) == 0 ? name : "";
    for (const std::string& folder : slurm_folders()) {
        std::string value;
        try {
            value = slurm_value(read_slurm_conf(folder + "/slurm.conf"), "plugindir");
        } catch (const Error&) {
            continue;
        }
        for (const std::string& directory : split(value, ':'))
            if (std::string file = cat(directory, "/", name);
                directory.starts_with('/') && ::access(file.c_str(), F_OK) == 0)
                return file;
    }
    std::vector<std::string> patterns = {"/usr/lib/*/slurm-wlm/", "/usr/lib/*/slurm/",     "/usr/lib64/slurm/",
                                         "/usr/lib/slurm/",       "/usr/local/lib/slurm/",
                                         "/usr/local/lib/*/slurm-wlm/"};
    // PREFIX of PREFIX/sbin/slurmd: a Slurm in a folder of its own has its plugins there.
    if (std::string prefix = slurm_program(); !prefix.empty()) {
        for (int i = 0; i < 2; ++i) prefix.erase(prefix.rfind('/'));
        patterns.insert(patterns.begin(), {prefix + "/lib64/slurm/", prefix + "/lib/slurm/"});
    }
    for (const std::string& pattern : patterns)
        for (const std::string& file : files_matching(cat(pattern, name))) return file;
    return {};
}

/// Of the first folder that has a slurm.conf.
std::vector<std::string> find_settings() {
    std::vector<std::string> out;
    for (const std::string& folder : slurm_folders()) {
        if (::access((folder + "/slurm.conf").c_str(), R_OK) != 0) continue;
        for (const char* file : {"/slurm.conf", "/cgroup.conf"}) try {
                for (std::string& line : settings_that_matter(read_slurm_conf(folder + file)))
                    out.push_back(std::move(line));
            } catch (const Error&) {
                // Sites without cgroups have no such file.
            }
        try {
            for (std::string& line : namespaces_that_matter(sys::read_file(folder + "/namespace.yaml", text_limit)))
                out.push_back(std::move(line));
        } catch (const Error&) {
            // As few have.
        }
        break;
    }
    return out;
}

void examine_plugin(SlurmFacts& facts) {
    try {
        Fd file = sys::open_file(facts.plugin, O_RDONLY);
        struct stat at = sys::stat_of(file.get(), facts.plugin);
        if (at.st_uid != 0 || (at.st_mode & 022) != 0)
            facts.plugin_problem = "it can be written by somebody else than root";
        facts.built_for = plugin_version_in(file.get());
    } catch (const Error& problem) {
        facts.plugin_problem = problem.what();
    }
}

}  // namespace

SlurmFacts gather_slurm_facts() {
    SlurmFacts out;
    try {
        out.version = slurm_version();
    } catch (const Error&) {
        // As good as none: what stands in the way of programs, other findings say.
    }
    out.settings = find_settings();
    for (const std::string& folder : slurm_folders()) {
        std::string file = plugstack_of(folder);
        PlugstackLine line = find_plugstack_line(file, plugin_name, out.looked);
        if (line.file.empty()) continue;
        out.plugstack = line.file;
        out.line_problem = problem_of_line(line);
        out.plugin = locate(line.plugin);
        std::vector<std::string> looked_again;
        out.pyxis = find_plugstack_line(file, "pyxis", looked_again).file;
        break;
    }
    if (!out.plugin.empty()) examine_plugin(out);
    return out;
}

}  // namespace berth
