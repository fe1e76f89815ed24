// SIF files of registries, as berth-pull brings them into the store.
#include "runtime/apptainer/start.hh"
#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/words.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/once.hh"
#include "runtime/store/extracted.hh"

namespace berth::cli {

namespace {

/// What `berth-pull sif` reports.
struct Brought {
    std::optional<Digest> digest;
    std::string error;
    int code = exit_failure;

    void take(const std::string& line, const ApptainerSettings& settings) {
        std::string word = line.substr(0, line.find(' ')), rest = line.substr(std::min(line.size(), word.size() + 1));
        if (word == "progress") tell_note(settings, rest);
        if (word == "image") digest = Digest::parse(rest);
        if (word != "error") return;
        uint64_t number = 0;
        std::string first = rest.substr(0, rest.find(' '));
        if (parse_number(first, 255, number) && number != 0) code = static_cast<int>(number);
        error = printable(rest.substr(std::min(rest.size(), first.size() + 1)), 8192);
    }
};

}  // namespace

std::string opened_as(const std::string& image, const ApptainerSettings& settings) {
    std::string artifact = apptainer::artifact_of(image);
    if (artifact.empty()) return image;
    plan::Site site = site_of_caller();
    store::Store store = open_callers_store(site);
    std::vector<std::string> options{"--policy", plan::word_of(site.store.pull), "--report"};
    if (settings.loudness >= Loudness::normal) options.emplace_back("--bars");
    options.push_back(artifact);
    Child child(pull_program(), pull_program_words("sif", site, store, options));
    Brought brought;
    read_lines(child, {}, [&](const std::string& line) { return brought.take(line, settings), true; });
    int code = child.wait();
    if (!brought.error.empty()) throw Error(brought.error, brought.code);
    std::string path = code == 0 && brought.digest ? store::sif_path(store, *brought.digest) : "";
    if (path.empty())
        throw Error(cat("pulling ", printable(image, 1024), ": berth-pull ", silent_end(code),
                        "; run apptainer pull by hand to see more"));
    return path;
}

}  // namespace berth::cli
