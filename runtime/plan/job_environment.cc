#include "runtime/plan/job_environment.hh"

#include <algorithm>
#include <array>

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::plan {

namespace {

constexpr const char* pmix_modules[][2] = {
    {"PMIX_PTL_MODULE", "PMIX_MCA_ptl"}, {"PMIX_SECURITY_MODE", "PMIX_MCA_psec"}, {"PMIX_GDS_MODULE", "PMIX_MCA_gds"}};

/// The environment of the task as it will be, and additions to it.
class Merged {
  public:
    Merged(Variables& inside, const std::map<std::string, std::string>& task) : inside_(inside), task_(task) {}

    std::string value(const std::string& name) const {
        if (auto found = inside_.find(name); found != inside_.end()) return found->second.value_or("");
        auto found = task_.find(name);
        return found != task_.end() ? found->second : "";
    }
    uint64_t number(const std::string& name) const {
        uint64_t out = 0;
        return parse_number(value(name), UINT32_MAX, out) ? out : 0;
    }
    void set(const std::string& name, const std::string& to) {
        if (!to.empty()) inside_[name] = to;
    }
    void set_if_missing(const std::string& name, const std::string& to) {
        if (value(name).empty()) set(name, to);
    }

  private:
    Variables& inside_;
    const std::map<std::string, std::string>& task_;
};

void add_pytorch(Merged& variables) {
    variables.set("RANK", variables.value("SLURM_PROCID"));
    variables.set("LOCAL_RANK", variables.value("SLURM_LOCALID"));
    variables.set_if_missing("MASTER_ADDR", first_node(variables.value("SLURM_STEP_NODELIST")));
    // The ports above those that Linux gives out by itself (net.ipv4.ip_local_port_range), as Enroot has it.
    if (uint64_t job = variables.number("SLURM_JOB_ID"))
        variables.set_if_missing("MASTER_PORT", std::to_string(61000 + job % 4536));
    uint64_t tasks = variables.number("SLURM_STEP_NUM_TASKS");
    variables.set_if_missing("WORLD_SIZE", tasks > 0 ? std::to_string(tasks) : variables.value("SLURM_NTASKS"));
    if (tasks > variables.number("SLURM_STEP_NUM_NODES")) variables.set_if_missing("OMP_NUM_THREADS", "1");
}

}  // namespace

bool belongs_to_job(const std::string& name) {
    return std::ranges::any_of(std::array{"SLURM_", "PMI_", "PMIX_", "CUDA_MPS_"},
                               [&](const char* start) { return name.starts_with(start); });
}

void add_job_variables(Variables& inside, const std::map<std::string, std::string>& task) {
    Merged variables(inside, task);
    for (const auto& [server, library] : pmix_modules) variables.set_if_missing(library, variables.value(server));
    if (!variables.value("PYTORCH_VERSION").empty() && !variables.value("SLURM_PROCID").empty()) add_pytorch(variables);
}

std::string first_node(const std::string& list) {
    std::string out;
    for (size_t at = 0; at < list.size() && list[at] != ',';) {
        size_t close = list[at] == '[' ? list.find(']', at) : std::string::npos;
        if (list[at] == '[' && close == std::string::npos) return list;
        if (list[at] != '[') {
            out += list[at++];
            continue;
        }
        out += list.substr(at + 1, list.find_first_of(",-]", at) - at - 1);
        at = close + 1;
    }
    return out;
}

bool has_pmix_server(const std::vector<std::string>& environment) {
    return !value_in(environment, "SLURM_PMIX_MAPPING_SERV").empty();
}

std::vector<JobPath> pmix_folders(const std::vector<std::string>& task, const std::string& tmp_fs, uid_t uid,
                                  const std::string& job_step) {
    std::string programs = value_in(task, "SLURM_PMIX_TMPDIR");
    Origin origin =
        programs.empty() ? Origin::of_site_in_shared_folder("slurm") : Origin("variable SLURM_PMIX_TMPDIR");
    if (programs.empty()) programs = tmp_fs.empty() ? "/tmp" : tmp_fs;
    std::vector<JobPath> out;
    auto add = [&](const std::string& path, const Origin& by) {
        if (path.starts_with('/')) out.push_back({normalised(path), by});
    };
    add(value_in(task, "PMIX_SERVER_TMPDIR"), "variable PMIX_SERVER_TMPDIR");
    add(cat(programs, "/spmix_appdir_", uid, "_", job_step), origin);
    return out;
}

bool is_name_of_pmix_server(const std::string& name, const std::string& job_step) {
    return name == "pmix." + job_step;
}

std::string display_key(const std::vector<std::string>& step, const std::string& tmp_fs) {
    std::string start = cat(tmp_fs.empty() ? "/tmp" : tmp_fs, "/.Xauthority-"), path = value_in(step, "XAUTHORITY");
    bool forwarded = value_in(step, "DISPLAY").starts_with("localhost:");
    bool slurms = path.starts_with(start) && path.find('/', start.size()) == path.npos;
    return forwarded && slurms ? path : "";
}

std::string pmix_note(const std::vector<std::string>& task, bool remap_root) {
    // A single task is most often no MPI program where Slurm's default is PMIx.
    bool alone = value_in(task, "SLURM_STEP_NUM_TASKS") == "1", first = value_in(task, "SLURM_NODEID") == "0";
    if (!remap_root || alone || !first || !value_in(task, "SLURM_MPI_TYPE").starts_with("pmix")) return {};
    return "Slurm's PMIx server refuses ranks that run as root: MPI programs will fail under "
           "--container-remap-root; leave it out, or use --mpi=pmi2 "
           "or --mpi=none";
}

}  // namespace berth::plan
