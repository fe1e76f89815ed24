// The variables that Apptainer and Singularity have written into an image. Data only: nothing is run.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

struct SifEnvironment {
    std::vector<std::string> env;  ///< NAME=VALUE, each name once, in the order of the first
    size_t unread = 0;             ///< lines that do more than set a variable to a value

    /// Reads one script of /.singularity.d/env, in the order in which Apptainer sources them; a later value wins. Read
    /// are the two forms that Apptainer's converter writes, `export NAME="${NAME:-"VALUE"}"` and `export NAME="VALUE"`,
    /// and NAME=VALUE with and without `export` where the value is a plain or quoted word. Pure.
    void read(std::string_view script);
};

/// Whether a name in /.singularity.d/env is that of a script which Apptainer writes into every image, and which sets
/// nothing of the image's own.
bool is_script_of_apptainer(std::string_view name);

}  // namespace berth
