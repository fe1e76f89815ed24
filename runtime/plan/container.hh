// Named containers: what is recorded of one, and what a start does with it. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/request/request.hh"

namespace berth::plan {

/// What is kept of a container besides the files it wrote.
struct ContainerRecord {
    std::string image;      ///< as the user wrote it, paths made absolute
    std::string digest;     ///< of the image's manifest; empty for a file or directory
    std::string image_file; ///< path of a file or directory that is the image; empty for an image of the store
    std::string identity;   ///< of the file, see file_identity(): a container's files belong to just this image
    int64_t created = 0;    ///< seconds since 1970
    Request options;        ///< of its creation; those that the option table records are kept
    bool operator==(const ContainerRecord&) const = default;
};

/// The record as a file: the line "berth-container 1", then records (records.hh).
std::string record_text(const ContainerRecord& record);

/// Throws Error naming `what` for text that record_text() would not write. Unknown keys are refused: the container
/// would start without what they say.
ContainerRecord parse_record(std::string_view text, const std::string& what);

/// Gives `wanted` the options that it leaves open and that the creation had: all that are recorded for `berth exec`,
/// else those that `berth run --name` takes over as well.
void take_recorded_options(Request& wanted, const ContainerRecord& record, bool for_exec);

enum class NameAction {
    join,
    start,
    create,
    beside,  ///< mounts and processes of one's own over the files of one that runs
};

/// What to do for `wanted`. Throws Error when its mode forbids that.
NameAction action_for(const ContainerName& wanted, bool exists, bool runs);

}  // namespace berth::plan
