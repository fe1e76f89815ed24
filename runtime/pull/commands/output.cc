#include "runtime/pull/commands/output.hh"

#include <unistd.h>

#include <chrono>

#include "runtime/base/debug_log.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/export/output_file.hh"

namespace berth::pull {

namespace {

void put(int fd, const std::string& text) {
    try {
        sys::write_all(fd, text, "the report");
    } catch (const Error&) {
        // Nobody listens any more.
    }
}

}  // namespace

Output::Output(const OutputOptions& options, const std::string& image)
    : options_(options), meter_(printable(image, 1024)), view_(view()) {
    // The runtime needs no word about the end that it has brought about itself, but the screen has to be left clean.
    std::function<void(int)> last_message;
    if (!options_.report || options_.bars) last_message = [this](int signal) { interrupted(signal); };
    display_ = std::make_unique<Display>(meter_, *view_, last_message);
}

std::unique_ptr<View> Output::view() const {
    if (options_.quiet) return std::make_unique<NoView>();
    if (options_.json)
        return std::make_unique<JsonView>([](const std::string& lines) { put(STDOUT_FILENO, lines); },
                                          [this] { return head(); });
    const char* before = options_.of_apptainer ? "INFO:    " : "berth: ";
    Put lines = [before](const std::string& line) { put(STDERR_FILENO, cat(before, line, "\n")); };
    if (options_.report) lines = [](const std::string& line) { put(STDOUT_FILENO, cat("progress ", line, "\n")); };
    if (options_.report && !options_.bars) return std::make_unique<LineView>(lines);
    return view_for_stderr(lines);
}

JsonHead Output::head() const {
    using namespace std::chrono;
    return {json_time(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count()), meter_.image()};
}

void Output::done(const std::string& digest) {
    display_->stop();
    if (options_.report && meter_.has_merged()) {
        std::string refused = meter_.refused();
        put(STDOUT_FILENO, cat("peers ", meter_.from_peers(), "\npublished ", meter_.published(), "\n",
                               refused.empty() ? "" : cat("refused ", refused, "\n"), "fetched ", meter_.fetched(),
                               " ", plan::phases_text(meter_.phase_times()), "\n"));
    }
    if (options_.of_apptainer) return;
    // Of an image that is a file there may be none.
    if (digest.empty() && !options_.json && !options_.report) return;
    put(STDOUT_FILENO, options_.json ? json_done(head(), digest, meter_.fetched())
                                     : cat(options_.report ? "image " : "", digest, "\n"));
}

void Output::early(const Digest& manifest, const std::optional<store::SignatureRecord::Admitted>& admitted) {
    display_->stop();
    if (!options_.report) return;
    put(STDOUT_FILENO, cat("early ", manifest, "\n"));
    if (admitted) put(STDOUT_FILENO, cat("signer ", store::signers_text(*admitted), "\nrule ", admitted->rule, "\n"));
}

void Output::refused_logins(const std::vector<std::string>& words) {
    if (!options_.report || words.empty()) return;
    display_->stop();
    for (const std::string& word : words) put(STDOUT_FILENO, cat("refused-login ", word, "\n"));
}

void Output::goes_on() const {
    if (!options_.report) return;
    // Nobody reads on.
    debug::silence();
    put(STDOUT_FILENO, "continues\n");
}

void Output::failed(const Error& error, plan::Cause cause) {
    display_->stop();
    print_error(error, cause);
}

void Output::print_error(const Error& error, plan::Cause cause) const {
    if (options_.json) return put(STDOUT_FILENO, json_error(head(), error));
    const char* before = options_.of_apptainer ? "FATAL:   " : "berth: ";
    if (!options_.report) return put(STDERR_FILENO, cat(before, error.what(), "\n"));
    // A caret means nothing where the line is read; the place of the mistake was shown at submission.
    std::vector<std::string> lines = split(error.what(), '\n');
    std::string text = lines.size() > 1 ? cat(lines[0], ": ", trimmed(lines[1])) : lines[0];
    put(STDOUT_FILENO, cat("cause ", plan::name_of(cause), "\nerror ", error.exit_code(), " ", text, "\n"));
}

void Output::interrupted(int signal) const {
    OutputFile::abandon_all();
    print_error(Error(cat(meter_.status().title, ": interrupted"), 128 + signal), plan::Cause::killed);
}

}  // namespace berth::pull
