// What berth-pull says while it works and in the end: to a person, to a program that reads JSON, or to the runtime that
// started it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/pull/progress/display.hh"
#include "runtime/store/signature_record.hh"

namespace berth::pull {

/// The exit code of what `apptainer` becomes, for each failure.
inline constexpr int exit_of_apptainer = 255;

/// Of `quiet`, `json` and `report` at most one is set.
struct OutputOptions {
    bool quiet = false;   ///< nothing but the result
    bool json = false;    ///< objects on standard output, the result among them
    bool report = false;  ///< lines for the runtime on standard output: `progress TEXT`, `fetched BYTES PHASE=US ...`,
                          ///< `early MANIFEST`, `signer NAME`, `rule TEXT`, `variable NAME` (a question),
                          ///< `refused-login WORD`, `log LINE` (of the debug log), `image DIGEST`, `continues` (the
                          ///< image is here, or can start; the program goes on until the step ends), `cause WORD`,
                          ///< `error CODE TEXT`
    bool of_apptainer = false;  ///< lines in Apptainer's form, and none about what was done
    bool bars = false;    ///< with report: bars on standard error in place of the progress lines, when it is a terminal
};

/// Shows what its meter says from the beginning to the result, or to its own end. To be made before the threads that
/// work.
class Output {
  public:
    Output(const OutputOptions& options, const std::string& image);

    Meter& meter() { return meter_; }
    /// Each of the three ends the display. `digest` is the image that was brought; an error's text is one line but in a
    /// person's mistakes.
    void done(const std::string& digest);
    /// Before done(): in a report, that the image of this manifest is in the store's partial/, and who has signed it.
    void early(const Digest& manifest, const std::optional<store::SignatureRecord::Admitted>& admitted);
    /// Before done(): in a report, which logins registries have refused.
    void refused_logins(const std::vector<std::string>& words);
    /// After done(): in a report, that the program goes on.
    void goes_on() const;
    void failed(const Error& error, plan::Cause cause = plan::Cause::image);
    /// Ends the display alone: the result is somebody else's to print.
    void stop() { display_->stop(); }

  private:
    std::unique_ptr<View> view() const;
    JsonHead head() const;
    void print_error(const Error& error, plan::Cause cause) const;
    void interrupted(int signal) const;

    OutputOptions options_;
    Meter meter_;
    std::unique_ptr<View> view_;
    std::unique_ptr<Display> display_;
};

}  // namespace berth::pull
