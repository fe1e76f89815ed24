// What --overlay lays over an image. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/edit.hh"

namespace berth::apptainer {

/// What is at a path of the node.
enum class Found { nothing, folder, file };

/// One --overlay: its absolute path without the option behind it, and whether that is `ro`.
struct OverlayGiven {
    std::string path;
    bool read_only = false;
};

struct Overlays {
    std::string writable;            ///< folder that takes what is written; empty: none
    std::vector<plan::Edit> layers;  ///< that are only read, in the order given: each lies over those before it
};

/// PATH, PATH:ro or PATH:rw.
OverlayGiven overlay_given(const std::string& text);

/// As Apptainer lays them: files are read, of a folder with an `upper` that is only read it is that. Throws Error for
/// two folders that would take what is written.
Overlays overlays_of(const std::vector<OverlayGiven>& given, const std::function<Found(const std::string&)>& find);

}  // namespace berth::apptainer
