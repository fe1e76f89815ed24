// What a container reads of its image, kept for later starts elsewhere.
#pragma once
#include <memory>
#include <string>

#include "runtime/images/opened.hh"
#include "runtime/squash/read/chunk_log.hh"
#include "runtime/store/store.hh"

namespace berth {

class ProfileRecord {
  public:
    /// Whether its profile can be kept: a registry's image that is here, in the user's own store.
    static bool is_possible(const OpenedImage& opened, const store::Store& store);

    /// From now on reads of the image, which is to be started, are noted, but not later than `until`. Throws Error
    /// where that is not possible; `name` is for its message.
    ProfileRecord(OpenedImage& opened, store::Store store, const std::string& name,
                  squash::ChunkLog::Clock::time_point until = squash::ChunkLog::Clock::time_point::max());

    /// Adds them to what is known of the image. Throws SysError.
    void keep() const;
    /// How much of the image keep() has kept, for a person.
    std::string text() const;

  private:
    std::vector<uint32_t> known() const;

    store::Store store_;
    Digest manifest_;
    std::shared_ptr<squash::ChunkLog> log_;
    uint32_t count_ = 0;
};

}  // namespace berth
