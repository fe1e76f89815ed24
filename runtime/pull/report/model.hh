// What events come to: the starts of a job, or of a site. Pure.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/event.hh"

namespace berth::pull::report {

/// A container's start on one node, or the failure of one. Times are in microseconds, moments since 1970.
struct Row {
    std::string node;
    std::string image;
    std::string container = {};  ///< name of a named one
    int64_t begin = 0;
    uint64_t total = 0;
    /// In their order. Those of a pull stand in the place of "image", which is then the rest of it.
    std::vector<plan::PhaseTime> phases = {};
    bool is_cold = false;  ///< a pull was part of it
    uint64_t bytes = 0, peer_bytes = 0, published_bytes = 0;
    /// Until all of an image was here that came while its container ran; 0 for others.
    uint64_t whole = 0;
    std::string error = {};  ///< of one that failed
};

/// The image, or the named container where that was all that was asked for.
std::string title_of(const Row& row);

/// What a step waited for longest.
struct LongestPole {
    std::string node, phase;
    uint64_t microseconds = 0;
    uint64_t of = 0;  ///< microseconds of the node's whole start
};

struct StepReport {
    std::string step;       ///< "JOB.STEP"
    int64_t begin = 0;      ///< of the first node
    uint64_t total = 0;     ///< until the last one's end
    uint64_t whole = 0;     ///< until the image was whole on all nodes on which it came meanwhile; 0: none
    std::vector<Row> rows;  ///< those that failed, then the slowest first
    std::optional<LongestPole> pole;  ///< of the slowest node that started
};

struct JobReport {
    std::string job;
    std::vector<StepReport> steps;  ///< in the order of their begin
};

struct Hour {
    int64_t begin = 0;  ///< seconds since 1970
    uint64_t warm = 0, cold = 0, failed = 0;
};

struct ImageRow {
    std::string image;
    uint64_t starts = 0, cold = 0;
    uint64_t mean = 0, worst = 0;  ///< microseconds, of all its starts
};

struct SiteReport {
    int64_t begin = 0, end = 0;  ///< of the first and the last event, microseconds
    uint64_t warm = 0, cold = 0, pulls = 0, imports = 0;
    uint64_t bytes = 0, peer_bytes = 0, published_bytes = 0;  ///< of pulls
    std::vector<Hour> hours;          ///< without those in which nothing was
    std::vector<ImageRow> images;     ///< the slowest by mean first, at most ten
    std::vector<std::pair<plan::Cause, uint64_t>> failures;  ///< the most frequent first
};

/// `job` is "JOB" or "JOB.STEP".
JobReport report_of_job(const std::vector<plan::Event>& events, const std::string& job);
SiteReport report_of_site(const std::vector<plan::Event>& events);

}  // namespace berth::pull::report
