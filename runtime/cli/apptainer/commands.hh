// The commands of `apptainer` and `singularity`, the front end for scripts that were written for Apptainer. argv[0] is
// the command's word; the result is the exit code; failures are Errors.
#pragma once
#include <exception>
#include <string>
#include <vector>

namespace berth::cli {

/// How much is said on standard error.
enum class Loudness { silent, quiet, normal, debug };

/// What the flags before the command say.
struct ApptainerSettings {
    Loudness loudness = Loudness::normal;
    bool debug = false;  ///< the debug log is wanted
};

using ApptainerCommand = int(int argc, char** argv, const ApptainerSettings& settings);

ApptainerCommand apptainer_exec;
ApptainerCommand apptainer_run;
ApptainerCommand apptainer_shell;
ApptainerCommand apptainer_test;
ApptainerCommand apptainer_pull;
ApptainerCommand apptainer_build;
ApptainerCommand apptainer_inspect;
ApptainerCommand apptainer_cache;
ApptainerCommand apptainer_registry;
ApptainerCommand apptainer_sif;
ApptainerCommand apptainer_verify;
ApptainerCommand apptainer_key;
ApptainerCommand apptainer_instance;
ApptainerCommand apptainer_instance_start;
ApptainerCommand apptainer_instance_run;
ApptainerCommand apptainer_push;

/// The image as Berth opens it: of an artifact (apptainer::artifact_of()) the SIF file of it in the store, which is
/// brought there first if need be; any other as it is. Throws Error.
std::string opened_as(const std::string& image, const ApptainerSettings& settings);

/// Tells why something failed, "FATAL:   ..."; the exit code, 255.
int tell_fatal(const std::exception& error);

/// A line in Apptainer's form, where it is wanted: "INFO:    ...", "WARNING: ...".
void tell_info(const ApptainerSettings& settings, const std::string& line);
void tell_warning(const ApptainerSettings& settings, const std::string& line);

/// That APPTAINER_CACHEDIR, APPTAINER_TMPDIR and --tmpdir, `with_tmpdir`, have no say in where an image that is no file
/// is pulled to.
void tell_of_places(const std::vector<std::string>& environment, bool with_tmpdir, const ApptainerSettings& settings);

/// A line of Berth's, which begins with "warning: " where it is one.
void tell_note(const ApptainerSettings& settings, const std::string& line);

}  // namespace berth::cli
