// What berth-mig reads as root: requests of jobs, its own records, and what Slurm says of a job. The first line of an
// input is SLURM_JOB_GPUS, the second File= of gres.conf; the rest is each of the others.
#include <algorithm>

#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/layout/job_gpus.hh"
#include "runtime/mig/layout/models.hh"
#include "runtime/mig/layout/record.hh"
#include "runtime/request/mig.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void run_request(const std::string& text) {
    plan::MigRequest request = plan::parse_mig(text);
    must(plan::parse_mig(plan::mig_text(request)) == request, "a request that is written is another one");
    for (const mig::Model& model : mig::known_models())
        hostile::refusing([&] {
            mig::Layout layout = mig::arrange(model, request);
            size_t wanted = 0;
            for (const plan::MigItem& item : request) wanted += item.count;
            must(layout.size() == wanted, "a layout has other instances than were asked for");
        });
}

void run_record(const std::string& text) {
    mig::Record record = mig::parse_record(text);
    must(mig::parse_record(mig::record_text(record)) == record, "a record that is written is another one");
}

void run_gpus(const std::string& gpus, const std::string& devices) {
    std::vector<std::string> files = mig::device_files(devices);
    must(files.size() <= 512, "more files than are allowed");
    for (const std::string& file : mig::files_of_job(files, gpus, "0")) {
        must(std::find(files.begin(), files.end(), file) != files.end(), "a file that is not of gres.conf");
        mig::minor_of(file);
    }
}

void run(std::string_view input) {
    std::string gpus(hostile::take_line(input)), devices(hostile::take_line(input)), rest(input);
    hostile::refusing([&] { run_gpus(gpus, devices); });
    hostile::refusing([&] { run_request(rest); });
    hostile::refusing([&] { run_record(rest); });
    hostile::refusing([&] { mig::require_whole_gpus(rest); });
}

const hostile::Registration registration("mig", run);

}  // namespace
