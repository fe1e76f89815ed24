// berth-mig: divides the GPUs of a job into MIG devices in Slurm's Prolog, and brings back what they were in its
// Epilog. A program of its own in a package of its own: it runs as root and has nothing of what makes containers.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <iostream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/layout/job_gpus.hh"
#include "runtime/mig/layout/models.hh"
#include "runtime/mig/node/change.hh"
#include "runtime/mig/node/scontrol.hh"
#include "runtime/request/mig.hh"

namespace {

using namespace berth;
using namespace berth::mig;

constexpr std::chrono::seconds lock_patience{60}, scontrol_patience{30};
/// Of programs where the environment has no PATH, as that of Prolog.
constexpr const char* usual_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin";

struct Arguments {
    uint32_t job = 0;
    std::string devices, request;
    std::string model;
    std::string state = "/var/lib/berth-mig";
    std::string log = "/var/log/berth-mig.log";
    std::string library = "libnvidia-ml.so.1";
    std::string scontrol = "scontrol";
    uint32_t timeout = 300;  ///< seconds
    bool dry_run = false, all = false;
};

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

/// A line an event, with the time; in a dry run on standard output instead.
class Log {
  public:
    explicit Log(const Arguments& arguments) : arguments_(arguments) {}

    void write(const std::string& line) const {
        if (arguments_.dry_run) {
            std::cout << line << '\n';
            return;
        }
        char now[32] = {};
        time_t seconds = std::time(nullptr);
        tm parts{};
        ::strftime(now, sizeof now, "%FT%T%z", ::localtime_r(&seconds, &parts));
        try {
            Fd file = sys::open_file(arguments_.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
            sys::write_all(file.get(), cat(now, ' ', line, '\n'), arguments_.log);
        } catch (const Error& error) {
            // A full disk keeps nobody from his GPUs.
            std::cerr << "berth-mig: " << error.what() << '\n';
        }
    }

    /// While a GPU is still in use, other jobs' berth-migs get on with theirs: their Epilogs do not wait for long.
    Manner manner(const std::string& job, State& state) const {
        Manner out;
        out.dry_run = arguments_.dry_run;
        out.pause = [&state, pause = out.pause] { state.without_lock(pause); };
        out.told = [this, job](const Gpu& gpu, const std::string& step) {
            write(cat("job ", job, ": GPU ", name_of(gpu), ": ", step));
        };
        return out;
    }

  private:
    const Arguments& arguments_;
};

/// The minors of the GPUs that the job has, and nobody else.
std::vector<unsigned> minors_of_job(const Arguments& arguments) {
    std::vector<std::string> files = device_files(arguments.devices);
    for (const std::string& file : files)
        if (::access(file.c_str(), F_OK) != 0)
            throw Error(cat(file, " of --devices is not there, so that what SLURM_JOB_GPUS counts is not known"));
    std::vector<std::string> own = files_of_job(files, variable("SLURM_JOB_GPUS"), variable("CUDA_VISIBLE_DEVICES"));
    std::string path = variable("PATH");
    require_whole_gpus(
        scontrol_answer(arguments.scontrol, path.empty() ? usual_path : path, arguments.job, scontrol_patience));
    std::vector<unsigned> out;
    for (const std::string& file : own) out.push_back(minor_of(file));
    return out;
}

/// What earlier jobs, whose Epilog did not come to its end, have left on the GPUs of this one.
std::vector<Record> left_behind(const Driver& driver, const State& state, const std::vector<unsigned>& minors) {
    std::vector<Record> out;
    for (const Record& record : state.records())
        for (unsigned minor : minors)
            if (gpu_with(driver, minor).uuid == record.gpu) out.push_back(record);
    return out;
}

void divide(const Arguments& arguments, State& state, const Log& log) {
    plan::MigRequest request = plan::parse_mig(arguments.request);
    std::vector<unsigned> minors = minors_of_job(arguments);
    Driver driver(arguments.library);
    apply(driver, state, arguments.job, request, minors,
          log.manner(std::to_string(arguments.job), state));
    if (!arguments.dry_run) state.tell(arguments.job, cat(plan::mig_ready, plan::mig_text(request)));
    log.write(cat("job ", arguments.job, ": ", plan::mig_text(request), " on each of ", minors.size(), " GPUs"));
}

/// For the reason why a job does not get its MIG devices. It is no reason to drain the node.
void refuse(const Arguments& arguments, const State& state, const Log& log, const Error& error) {
    log.write(cat("job ", arguments.job, ": refused: ", error.what()));
    if (arguments.dry_run) return;
    try {
        state.tell(arguments.job, error.what());
    } catch (const Error& more) {
        // Steps end without "ready", too.
        log.write(cat("job ", arguments.job, ": ", more.what()));
    }
}

int apply_command(const Arguments& arguments) {
    device_files(arguments.devices);
    Log log(arguments);
    // Most jobs ask for nothing.
    if (arguments.request.empty() && (variable("SLURM_JOB_GPUS").empty() || State::is_empty(arguments.state))) return 0;
    try {
        State state(arguments.state, lock_patience);
        try {
            if (!arguments.request.empty()) {
                divide(arguments, state, log);
            } else if (!state.records().empty()) {
                Driver driver(arguments.library);
                restore(driver, state, left_behind(driver, state, minors_of_job(arguments)),
                        log.manner(std::to_string(arguments.job), state));
            }
            return 0;
        } catch (const LeftChanged& error) {
            log.write(cat("job ", arguments.job, ": ", error.what()));
            throw;
        } catch (const Error& error) {
            refuse(arguments, state, log, error);
        }
    } catch (const LeftChanged&) {
        throw;
    } catch (const Error& error) {
        log.write(cat("job ", arguments.job, ": refused: ", error.what()));
    }
    return 0;
}

int restore_command(const Arguments& arguments) {
    Log log(arguments);
    if (State::is_empty(arguments.state)) return 0;
    State state(arguments.state, lock_patience);
    std::vector<Record> records = state.records();
    if (!arguments.all) std::erase_if(records, [&](const Record& it) { return it.job != arguments.job; });
    try {
        if (!arguments.dry_run) arguments.all ? state.forget_all() : state.forget(arguments.job);
        if (records.empty()) return 0;
        Driver driver(arguments.library);
        restore(driver, state, records, log.manner(arguments.all ? "-" : std::to_string(arguments.job), state));
        if (!arguments.dry_run) log.write(cat("restored ", records.size(), " GPUs"));
    } catch (const Error& error) {
        log.write(cat("not restored: ", error.what()));
        throw;
    }
    return 0;
}

std::string shown(const Model& model, const Layout& layout) {
    std::string out;
    for (const Step& step : steps_between({}, layout)) out += text_of(step, model) + '\n';
    return out;
}

int plan_command(const Arguments& arguments) {
    std::optional<Model> model = model_of(arguments.model);
    if (!model) {
        std::string names;
        for (const Model& one : known_models()) names += cat(names.empty() ? "" : ", ", one.name);
        throw Error(cat("'", printable(arguments.model), "' is no GPU of the table; it has ", names));
    }
    std::cout << shown(*model, arrange(*model, plan::parse_mig(arguments.request)));
    return 0;
}

void declare_common(CommandLine& line, Arguments& arguments) {
    line.option("--state", arguments.state, "folder of the records");
    line.option("--log", arguments.log, "file to which each step is appended");
    line.option("--library", arguments.library, "NVML");
    line.option("--timeout", arguments.timeout, "seconds after which a driver that hangs is given up");
    line.flag("--dry-run", arguments.dry_run, "print the steps and do none");
}

int run(int argc, char** argv) {
    Arguments arguments;
    CommandLine line("Divides the GPUs of a job into MIG devices; see berth-mig(8).", "berth-mig");
    line.version("berth-mig " BERTH_VERSION);
    CommandLine apply = line.subcommand("apply", "divide the job's GPUs (in Prolog)");
    apply.option("--job", arguments.job, "the job's number").required();
    apply.option("--devices", arguments.devices, "the GPUs' files in the order of slurmd -G, as /dev/nvidia[0-7]")
        .required();
    apply.option("--request", arguments.request, "PROFILE[:N],...; by default $SPANK_BERTH_MIG");
    apply.option("--scontrol", arguments.scontrol, "Slurm's scontrol");
    declare_common(apply, arguments);
    CommandLine restore = line.subcommand("restore", "bring back what the GPUs were (in Epilog, and at boot)");
    DeclaredOption of_job = restore.option("--job", arguments.job, "the job's number");
    DeclaredOption of_all = restore.flag("--all", arguments.all, "of all jobs").excludes(of_job);
    declare_common(restore, arguments);
    CommandLine plan = line.subcommand("plan", "print where MIG devices would go on a kind of GPU");
    plan.option("--model", arguments.model, "A30, H100-80GB, ...").required();
    plan.argument("REQUEST", arguments.request, "PROFILE[:N],...").required();
    if (auto code = line.parse(argc, argv)) return *code;
    if (plan.chosen()) return plan_command(arguments);
    // SIGALRM ends it as a kill does: Prolog fails, and the node, which has no driver any more, is drained.
    ::alarm(arguments.timeout);
    if (restore.chosen())
        return of_job.given() || of_all.given() ? restore_command(arguments) : restore.missing("--job or --all");
    if (arguments.request.empty()) arguments.request = variable("SPANK_BERTH_MIG");
    return apply_command(arguments);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << "berth-mig: " << error.what() << '\n';
        return 1;
    }
}
