// Connections of which nobody knows yet whether they are of the step: each has a deadline, and there is a bound for
// all of them, so that strangers keep nobody else away. There is none for an address: a stranger may be on the node of
// somebody who belongs here. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace berth::pull::nodes {

class Newcomers {
  public:
    using Id = uint64_t;  ///< who came later has a greater one
    using Time = std::chrono::steady_clock::time_point;

    Newcomers(size_t limit, std::chrono::milliseconds patience) : limit_(limit), patience_(patience) {}

    void add(Id id, Time came) { came_.emplace(id, came); }
    void remove(Id id) { came_.erase(id); }
    bool is_empty() const { return came_.empty(); }
    /// Takes out the oldest one; nothing may be there.
    std::vector<Id> take_oldest();
    /// Takes out those that have to go: the oldest where there are too many, and who has been here for too long.
    std::vector<Id> take_overdue(Time now);

  private:
    size_t limit_;
    std::chrono::milliseconds patience_;
    std::map<Id, Time> came_;
};

/// Raises this process's limit of open files as far as it may, but no further than anything here needs, and returns it.
/// Throws SysError.
size_t raise_file_limit();

}  // namespace berth::pull::nodes
