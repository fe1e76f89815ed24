#include "runtime/step/mig.hh"

#include <fcntl.h>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mig.hh"

namespace berth {

namespace {

constexpr size_t most_bytes = 4096;

std::optional<std::string> told_of(uint32_t job, const std::string& folder) {
    std::string path = cat(folder, '/', job);
    Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW);
    if (!file) return std::nullopt;
    return std::string(trimmed(sys::read_all(file.get(), most_bytes, path)));
}

}  // namespace

std::string mig_problem(const std::string& wanted, const std::optional<std::string>& told) {
    if (!told)
        return "the GPUs of this job were not divided; give --mig to the sbatch, salloc or srun that makes the job, "
               "and see whether the site's Prolog runs berth-mig";
    if (!told->starts_with(plan::mig_ready)) return printable(*told, most_bytes);
    std::string made = told->substr(plan::mig_ready.size());
    if (made == wanted) return {};
    return cat("the GPUs of this job were divided into ", printable(made),
               " when it started, and stay so; leave the option out");
}

void check_mig(const std::vector<std::string>& environment, uint32_t job, const std::string& folder) {
    const char* wanted = variable(environment, plan::mig_variable);
    if (!wanted || *wanted == '\0') return;
    if (std::string problem = mig_problem(wanted, told_of(job, folder)); !problem.empty())
        throw Error(cat("--mig=", printable(wanted), ": ", problem));
}

}  // namespace berth
