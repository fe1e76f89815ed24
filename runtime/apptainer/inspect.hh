// What `apptainer inspect` prints of an image. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace berth::apptainer {

/// What is asked for; nothing of it stands for the labels.
struct Inspection {
    bool labels = false, deffile = false, runscript = false, startscript = false, test = false, environment = false,
         helpfile = false, apps = false;
    bool all = false;   ///< all of it, of each app too, as JSON
    bool json = false;
    std::string app = {};    ///< of this app alone
};

/// The files of an image, by absolute paths.
struct ImageReader {
    std::function<std::string(const std::string& path)> text;                ///< empty: there is none
    std::function<std::vector<std::string>(const std::string& path)> names;  ///< of a directory
};

/// What is printed, its last line ended; empty where the image has nothing of what is asked for. What is read of
/// labels.json and is no JSON counts as nothing.
std::string inspected(Inspection asked, const ImageReader& image);

}  // namespace berth::apptainer
