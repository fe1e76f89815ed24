// Who chose what an edit takes from the node.
#pragma once
#include <string>
#include <utility>

namespace berth::plan {

/// Whose wish an edit is ("system", "option --container-mounts", "hook nvidia", ...), and who chose the path that it
/// takes from the node. An origin that says nothing else is the job's: policy.mount_sources judges what the edit takes.
class Origin {
  public:
    enum class Chooser {
        job,  ///< or nobody knows
        /// The site, but in a folder where users make files, such as /tmp. As the site's while the path itself is no
        /// symlink that leads elsewhere, and as the job's else.
        site_in_shared_folder,
        site,  ///< or berth, or Slurm
    };

    // Implicit, so that what is written down without a thought is judged.
    Origin(std::string text) : text_(std::move(text)) {}
    Origin(const char* text) : text_(text) {}

    static Origin of_site(std::string text) { return {std::move(text), Chooser::site}; }
    static Origin of_site_in_shared_folder(std::string text) {
        return {std::move(text), Chooser::site_in_shared_folder};
    }

    Chooser chooser() const { return chooser_; }
    const std::string& text() const { return text_; }

  private:
    Origin(std::string text, Chooser chooser) : text_(std::move(text)), chooser_(chooser) {}

    std::string text_;
    Chooser chooser_ = Chooser::job;
};

}  // namespace berth::plan
