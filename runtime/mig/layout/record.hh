// What is kept on disk of a GPU before the first change for a job: enough to lead back from wherever it is.
#pragma once
#include <string>

#include "runtime/mig/layout/profile.hh"

namespace berth::mig {

struct Record {
    std::string gpu;  ///< UUID
    uint32_t job = 0;
    Layout first;  ///< before the job
    bool operator==(const Record&) const = default;
};

/// The text of its file, a line a fact.
std::string record_text(const Record& record);

/// Reads such a text. Throws Error.
Record parse_record(const std::string& text);

}  // namespace berth::mig
