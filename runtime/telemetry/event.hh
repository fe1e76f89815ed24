// What is reported to a site: a start, a pull, an import, or the failure of one, as a plain value and as the line that
// is written of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// Why a start or a pull failed: a closed set, so that failures can be counted. Where the reason is not known better it
/// is the part that was at work.
enum class Cause {
    request,
    image,
    denied,
    not_found,
    network,
    space,
    devices,
    plan,
    container,
    entrypoint,
    killed,
    other
};
inline constexpr size_t cause_count = 12;

/// The word for programs: "not_found" and so on.
const char* name_of(Cause cause);
/// Cause::other for a word that is none.
Cause cause_of(std::string_view word);

/// Where the image of a start came from: the store as it was, a pull, a file or directory used as it lies, or a
/// container that ran already.
enum class ImageFrom { store, pull, file, container };
inline constexpr size_t image_from_count = 4;
const char* name_of(ImageFrom from);

struct PhaseTime {
    std::string name;
    uint64_t microseconds = 0;
    bool operator==(const PhaseTime&) const = default;
};

/// "asking=1200 pulling=530000", and back; what is no such pair is left out.
std::string phases_text(const std::vector<PhaseTime>& phases);
std::vector<PhaseTime> parse_phases(std::string_view text);

struct Event {
    enum class Kind { start, pull, import, failure };
    Kind kind = Kind::start;
    int64_t time = 0;     ///< microseconds since 1970
    unsigned uid = 0;
    std::string user;     ///< login name; empty when there is none
    std::string node;
    std::string job;      ///< "JOB.STEP" or "JOB"; empty outside of Slurm
    std::string image;    ///< as it was asked for
    std::string digest;   ///< of the manifest; empty when not known, and for files
    std::string container;  ///< name of a named container
    std::string signer = {};  ///< by whose signature the image may run, where a site has a signature policy
    std::string rule = {};    ///< and by which rule
    ImageFrom from = ImageFrom::store;  ///< of a start
    uint64_t bytes = 0;   ///< fetched, of layers as the registry has them
    uint64_t peer_bytes = 0;  ///< those of them that came from other nodes of the step
    uint64_t published_bytes = 0;  ///< those of layers that came as they run (share.artifacts), and were not converted
    uint64_t waited_bytes = 0;     ///< those of them that a container waited for (store.start), which ran already
    std::string refused = {};      ///< why a layer that is published so was converted all the same; the first one's
    std::string note = {};         ///< of a start: what was found wrong with unpacked files of images
    uint64_t total = 0;   ///< microseconds from the beginning
    std::vector<PhaseTime> phases = {};
    std::string file;      ///< of an import: the one that was written
    Kind of = Kind::start;  ///< of a failure: what failed; a pull when it was no part of a start or an import
    Cause cause = Cause::other;
    std::string error;     ///< the line that the user was shown
};

/// One line of JSON with its line end, below 8 kB whatever the event holds.
std::string json_line(const Event& event);

}  // namespace berth::plan
