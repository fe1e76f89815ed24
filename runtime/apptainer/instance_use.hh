// What `apptainer instance stats` prints. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth::apptainer {

/// What processes use, summed.
struct InstanceUse {
    uint64_t time = 0;    ///< nanoseconds of a clock
    uint64_t cpu = 0;     ///< nanoseconds of processor time until then, with children that they have waited for
    uint64_t memory = 0;  ///< bytes, each page divided by those who share it
    uint64_t limit = 0;   ///< bytes that they may have at most
    uint64_t read = 0, written = 0;  ///< bytes from and to disks
    size_t processes = 0;

    /// Adds a process by the texts of its files in /proc (proc(5)): stat, smaps_rollup or, where that is empty, statm,
    /// and io. `ticks` a second are what stat counts in, pages of `page` bytes what statm does. What cannot be
    /// understood counts as nothing.
    void add(std::string_view stat, std::string_view smaps_rollup, std::string_view statm, std::string_view io,
             uint64_t ticks, uint64_t page);
};

/// A table in Apptainer's form: processor time between the two.
std::string use_table(const std::string& name, const InstanceUse& before, const InstanceUse& now);

/// As JSON, members of what Apptainer prints: nanoseconds and bytes.
std::string use_json(const InstanceUse& use);

}  // namespace berth::apptainer
