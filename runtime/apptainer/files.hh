// What `apptainer pull` and `inspect` do, as words of Berth. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::apptainer {

/// The name of the file that a pull of `uri` writes: NAME_TAG.sif. Throws Error for what is not pulled.
std::string file_name_of(const std::string& uri);

/// Of `inspect`: what is shown.
struct Inspection {
    bool labels = false, deffile = false, runscript = false, startscript = false, test = false, environment = false,
         helpfile = false, json = false;
};

/// A command for the image's shell that prints that.
std::vector<std::string> inspect_command(const Inspection& asked);

}  // namespace berth::apptainer
