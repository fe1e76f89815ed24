#include "runtime/mig/node/change.hh"

#include <algorithm>
#include <optional>

#include "runtime/base/text.hh"
#include "runtime/mig/layout/arrange.hh"

namespace berth::mig {

namespace {

/// A GPU, where it is to get, and what was first.
struct Change {
    Gpu gpu;
    Model model;
    Layout first, wanted;
};

using Clock = std::chrono::steady_clock;

void make_patiently(const Driver& driver, const Change& change, const Step& step, const Manner& manner,
                    Clock::time_point end) {
    for (;;) {
        try {
            return driver.make(change.gpu, step, change.model);
        } catch (const InUse&) {
            if (Clock::now() >= end) throw;
        }
        manner.pause();
    }
}

/// From whatever the GPU is divided into to `wanted`. What is in use by `end` stays.
void reach(const Driver& driver, const Change& change, const Layout& wanted, const Manner& manner,
           Clock::time_point end) {
    for (const Step& step : steps_between(driver.layout(change.gpu), wanted)) {
        manner.told(change.gpu, text_of(step, change.model));
        if (!manner.dry_run) make_patiently(driver, change, step, manner, end);
    }
    if (!manner.dry_run && !same_layout(driver.layout(change.gpu), wanted))
        throw Error(cat("GPU ", name_of(change.gpu), ": the driver has made something else than it was told"));
}

/// Nothing is changed before each GPU has its plan.
std::vector<Change> plan_of(const Driver& driver, const std::vector<Record>& records, const plan::MigRequest& request,
                            const std::vector<unsigned>& minors) {
    std::vector<Change> out;
    for (unsigned minor : minors) {
        Change one;
        one.gpu = gpu_with(driver, minor);
        driver.require_mig(one.gpu);
        one.model = driver.model(one.gpu);
        auto record =
            std::find_if(records.begin(), records.end(), [&](const Record& it) { return it.gpu == one.gpu.uuid; });
        one.first = record == records.end() ? driver.layout(one.gpu) : record->first;
        one.wanted = arrange(one.model, request);
        out.push_back(std::move(one));
    }
    return out;
}

/// `why` is the error for which it goes back.
void go_back(const Driver& driver, const State& state, uint32_t job, const std::vector<Change>& changes,
             const Manner& manner, const std::string& why) {
    Clock::time_point end = Clock::now() + manner.patience;
    for (const Change& one : changes) {
        try {
            reach(driver, one, one.first, manner, end);
            state.drop({one.gpu.uuid, job, {}});
        } catch (const Error& error) {
            throw LeftChanged(cat(why, "; and bringing back what the GPU was: ", error.what()));
        }
    }
}

}  // namespace

Gpu gpu_with(const Driver& driver, unsigned minor) {
    for (Gpu& gpu : driver.gpus())
        if (gpu.minor == minor) return gpu;
    throw Error(cat("NVML has no GPU that is /dev/nvidia", minor, "; nvidia-smi on the node tells more"));
}

void apply(const Driver& driver, const State& state, uint32_t job, const plan::MigRequest& request,
           const std::vector<unsigned>& minors, const Manner& manner) {
    std::vector<Change> changes = plan_of(driver, state.records(), request, minors), begun;
    Clock::time_point end = Clock::now() + manner.patience;
    for (const Change& one : changes) {
        try {
            if (!manner.dry_run) state.keep({one.gpu.uuid, job, one.first});
            begun.push_back(one);
            reach(driver, one, one.wanted, manner, end);
        } catch (const Error& error) {
            if (!manner.dry_run) go_back(driver, state, job, begun, manner, error.what());
            throw;
        }
    }
}

void restore(const Driver& driver, const State& state, const std::vector<Record>& records, const Manner& manner) {
    std::optional<Error> first_error;
    std::vector<Gpu> gpus = driver.gpus();
    Clock::time_point end = Clock::now() + manner.patience;
    for (const Record& record : records) {
        try {
            auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& it) { return it.uuid == record.gpu; });
            if (gpu == gpus.end())
                throw Error(cat("GPU ", printable(record.gpu), " of job ", record.job,
                                " does not answer; restore it later, or remove its record if it is another one now"));
            driver.require_mig(*gpu);
            reach(driver, {*gpu, driver.model(*gpu), {}, {}}, record.first, manner, end);
            if (!manner.dry_run) state.drop(record);
        } catch (const Error& error) {
            if (!state.has_lock()) throw;
            if (!first_error) first_error = error;
        }
    }
    if (first_error) throw *first_error;
}

}  // namespace berth::mig
