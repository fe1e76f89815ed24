// Nodes with divided GPUs, by the stand-in for NVML (tests/fixtures/fake_nvml.cc), whose GPU instances outlive
// processes.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mig/node/change.hh"
#include "tests/fixtures/squash_tools.hh"

namespace berth::mig::test {

namespace fs = std::filesystem;

inline fs::path beside_tests() { return fs::read_symlink("/proc/self/exe").parent_path(); }
inline std::string stand_in() { return beside_tests() / "fake_nvml.so"; }

/// A node: its GPUs, the driver's memory of their instances, and the state folder of berth-mig.
struct Node {
    // Every record is synced, which takes milliseconds on a disk.
    fixtures::TempFolder folder{::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : nullptr};
    std::string state = folder / "state", instances = folder / "instances", log = folder / "log";
    std::string scene;

    explicit Node(const std::vector<std::string>& models) {
        for (size_t i = 0; i < models.size(); ++i) {
            scene += cat("gpu 00000000:", i + 1, "B:00.0 ", i, " GPU-", i, " 9.0 14 mig\n");
            scene += sys::read_file(cat("tests/fixtures/mig/", models[i], ".scene"));
        }
        scene += cat("state ", instances, '\n');
        with("");
    }
    ~Node() { ::unsetenv("BERTH_FAKE_NVML"); }

    void with(const std::string& more) const { ::setenv("BERTH_FAKE_NVML", (scene + more).c_str(), 1); }

    /// As the driver has it after a boot, or after the administrator's work.
    void divide(unsigned gpu, const Layout& layout) const {
        std::string text;
        for (const Instance& one : layout) {
            text += cat("instance ", gpu, ' ', one.profile, ' ', one.place.start, ' ', one.place.size, '\n');
            for (const Compute& part : one.computes)
                text += cat("compute ", gpu, ' ', part.profile, ' ', part.place.start, ' ', part.place.size, '\n');
        }
        Fd file = sys::open_file(instances, O_WRONLY | O_CREAT | O_APPEND, 0644);
        sys::write_all(file.get(), text, instances);
    }
    void reboot() const { fs::remove(instances); }

    Layout now(unsigned gpu) const {
        Driver driver(stand_in());
        return driver.layout(gpu_with(driver, gpu));
    }
};

inline Manner manner() {
    Manner out;
    out.patience = {};
    return out;
}

/// What becomes of it: "" or the error.
inline std::string applied(const Node& node, uint32_t job, const std::string& request,
                           const std::vector<unsigned>& minors, const Manner& how = manner()) {
    State state(node.state, {});
    try {
        Driver driver(stand_in());
        apply(driver, state, job, plan::parse_mig(request), minors, how);
    } catch (const LeftChanged& error) {
        return cat("left changed: ", error.what());
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

inline std::string restored(const Node& node, const Manner& how = manner()) {
    State state(node.state, {});
    try {
        Driver driver(stand_in());
        restore(driver, state, state.records(), how);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

inline size_t records(const Node& node) { return State(node.state, {}).records().size(); }

inline Layout filled(std::initializer_list<Instance> all) {
    Layout out = all;
    for (Instance& one : out) one.computes = {compute_of(one.profile == 9 ? 3 : one.profile == 14 ? 2 : 1)};
    return out;
}

}  // namespace berth::mig::test
