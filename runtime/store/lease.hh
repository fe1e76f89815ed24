// Owner of the use of a stored image.
#pragma once
#include <utility>

#include "runtime/base/fd.hh"

namespace berth::store {

/// Keeps an image from being removed until this, and every copy of its descriptor in another process, is gone. Empty
/// for an image that is in no store, or in one that cannot be written to.
class [[nodiscard]] Lease {
  public:
    Lease() = default;
    explicit Lease(Fd file) : file_(std::move(file)) {}
    explicit operator bool() const { return static_cast<bool>(file_); }

  private:
    Fd file_;
};

}  // namespace berth::store
