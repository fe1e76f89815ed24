// What the registry has said within a job: which digest an image's name has. Later steps of the job then run the same
// image without asking again.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hh"

namespace berth {

/// The digest that counts for the image `name` in a file of answers: that of the first whole line "DIGEST NAME" for it.
/// Pure.
std::optional<Digest> answer_in(std::string_view text, std::string_view name);

/// The file for the answers of the job in which `environment` (NAME=VALUE) is: "HOME/.cache/berth-jobs/CLUSTER.JOB".
/// Empty outside of jobs, and without a home. Pure.
std::string job_answers_file(const std::vector<std::string>& environment, const std::string& home);

/// The answers of one job, in a file of mode 0600 that is removed thirty days after its last use. A file that cannot be
/// read or written is as good as none: the registry is asked again.
class JobAnswers {
  public:
    /// `file` need not be there.
    explicit JobAnswers(std::string file) : file_(std::move(file)) {}

    std::optional<Digest> find(const std::string& name) const;

    /// Keeps an answer. Returns the one that counts: if two steps asked at the same moment, the first that was kept.
    Digest keep(const std::string& name, const Digest& digest) const;

  private:
    std::string file_;
};

}  // namespace berth
