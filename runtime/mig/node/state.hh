// What berth-mig keeps on disk: a record for each GPU that is divided for a job, and for each job whether it has its
// MIG devices. Every file appears whole, by a rename.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/lock.hh"
#include "runtime/mig/layout/record.hh"

namespace berth::mig {

class State {
  public:
    /// Makes the folder where it is missing, and holds its lock: one berth-mig at a time changes GPUs. Throws Error
    /// when another one holds it for so long.
    State(std::string path, std::chrono::seconds patience);

    /// Lets other berth-migs have their turn while `wait` lasts. Throws Error as the constructor does; then there is no
    /// lock any more.
    void without_lock(const std::function<void()>& wait);
    bool has_lock() const { return bool(lock_); }

    /// True when it has neither records nor anything to tell. Without the lock, which may be held for long: what a job
    /// has there, its own Prolog has put there.
    static bool is_empty(const std::string& path);

    /// The records, by the names of their files. Throws Error for one that cannot be read.
    std::vector<Record> records() const;

    /// On disk when this returns. Replaces that of the same GPU.
    void keep(const Record& record) const;
    void drop(const Record& record) const;

    /// What the job's steps are told: see mig_ready.
    void tell(uint32_t job, const std::string& line) const;
    void forget(uint32_t job) const;
    void forget_all() const;

  private:
    std::string path_;
    std::chrono::seconds patience_;
    Fd gpus_, jobs_;
    Lock lock_;
};

}  // namespace berth::mig
