// NVIDIA's driver, by its library NVML: what GPUs are divided into, and each change of that.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/mig/layout/profile.hh"
#include "runtime/mig/layout/steps.hh"

namespace berth::mig {

/// A change that the driver refuses as a process uses what is to be changed. Such a process may be about to end.
class InUse : public Error {
    using Error::Error;
};

/// One of the node's GPUs.
struct Gpu {
    void* handle = nullptr;
    unsigned minor = 0;  ///< of /dev/nvidiaN
    std::string uuid;
};

/// The library, loaded. It never resets a GPU, nor changes its MIG mode.
class Driver {
  public:
    /// `library` is a path, or the name for the loader to find. Throws Error.
    explicit Driver(const std::string& library);
    ~Driver();
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    /// Those that answer.
    std::vector<Gpu> gpus() const;

    /// Throws Error for a GPU that is not in MIG mode, or is about to leave it.
    void require_mig(const Gpu& gpu) const;

    /// What the GPU can be divided into, as its driver tells it. Throws Error.
    Model model(const Gpu& gpu) const;

    /// What it is divided into now. Throws Error.
    Layout layout(const Gpu& gpu) const;

    /// Does one step; `model` is for the words of errors. Throws InUse, or another Error when the driver refuses it
    /// otherwise.
    void make(const Gpu& gpu, const Step& step, const Model& model) const;

  private:
    template <typename What>
    struct Found {
        void* handle;
        What what;
    };
    template <typename Signature, typename... Arguments>
    int call(const char* name, Arguments... arguments) const;
    int read_profile(const Gpu& gpu, unsigned number, Profile& out) const;
    std::vector<Profile> profiles(const Gpu& gpu) const;
    std::vector<Found<Instance>> instances(const Gpu& gpu) const;
    std::vector<Found<Compute>> computes(const Gpu& gpu, void* instance) const;
    void* find_instance(const Gpu& gpu, const Instance& wanted) const;
    int create_compute(const Gpu& gpu, const Step& step) const;
    int destroy_compute(const Gpu& gpu, const Step& step) const;
    int change(const Gpu& gpu, const Step& step) const;

    void* library_;
};

/// "GPU-... (minor 3)", for messages.
std::string name_of(const Gpu& gpu);

}  // namespace berth::mig
