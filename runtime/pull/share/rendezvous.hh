// Where pulls of one user meet that have no srun in common, as those of a job array: a file in a folder that all nodes
// see (share.rendezvous) says where the tracker is that the first of them has started.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/child.hh"
#include "runtime/base/digest.hh"
#include "runtime/pull/agreement/agreement.hh"

namespace berth::pull::share {

/// What such a file says: "berth-meeting-1 HOST PORT SECRET". Nothing for any other text.
std::optional<MeetingPlace> parse_meeting(std::string_view text);
std::string meeting_text(const MeetingPlace& place);

struct RendezvousSettings {
    std::string folder;   ///< made where it is missing
    Digest image;
    std::string address;  ///< by which other nodes reach this one
    std::string node;     ///< its name, for people
};

/// The place to meet at, and the tracker where this pull has started it: that ends with this object, which takes the
/// file away. Whoever is still there then pulls alone.
class Rendezvous {
  public:
    /// Throws Error when the folder cannot be used, or is not the user's alone.
    explicit Rendezvous(RendezvousSettings settings);
    ~Rendezvous();
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;

    const MeetingPlace& place() const { return place_; }

  private:
    std::string path() const;
    bool is_still_ours() const;
    void open_folder();
    bool join();
    bool found();
    void start_tracker();
    bool publish();

    RendezvousSettings settings_;
    Fd folder_;
    MeetingPlace place_;
    std::unique_ptr<Child> tracker_;
    bool is_ours_ = false;  ///< the file
};

}  // namespace berth::pull::share
