// What a container reads of its image, kept for later starts elsewhere.
#pragma once
#include <memory>
#include <string>

#include "runtime/images/opened.hh"
#include "runtime/squash/read/piece_log.hh"
#include "runtime/store/store.hh"

namespace berth::cli {

class ProfileRecord {
  public:
    /// From now on reads of the image, which is to be started, are noted. Throws Error where its profile cannot be
    /// kept: the image is no registry's, or in a store of others. `name` is for messages.
    ProfileRecord(OpenedImage& opened, store::Store store, const std::string& name);
    /// Adds them to what is known of the image. Throws SysError.
    void keep() const;

  private:
    store::Store store_;
    Digest manifest_;
    std::shared_ptr<squash::PieceLog> log_;
    uint32_t count_ = 0;
};

}  // namespace berth::cli
