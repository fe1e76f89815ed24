// Owner of a lock on a file.
#pragma once
#include <sys/file.h>

#include <utility>

#include "runtime/base/fd.hh"

namespace berth {

/// A lock (flock) that is held until this is destroyed; empty: it is not held. A copy of its descriptor in another
/// process holds it as well.
class [[nodiscard]] Lock {
  public:
    Lock() = default;
    /// `file` is locked already.
    explicit Lock(Fd file) : file_(std::move(file)) {}
    explicit operator bool() const { return static_cast<bool>(file_); }

    void unlock() { file_.reset(); }
    /// Also where other processes have a copy of the descriptor.
    void unlock_for_all() {
        if (file_) ::flock(file_.get(), LOCK_UN);
        file_.reset();
    }

    /// The file that is locked, for what its holder writes into it.
    int fd() const { return file_.get(); }

  private:
    Fd file_;
};

}  // namespace berth
