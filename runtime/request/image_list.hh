// A file that lists images, one a line, as `berth mirror` reads it. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/request/reference.hh"

namespace berth::plan {

struct ImageList {
    struct Line {
        size_t number = 0;  ///< from 1
        std::string text;   ///< without blanks around it
        Reference reference;
    };
    std::vector<Line> lines;
    std::vector<std::string> mistakes;  ///< "FILE:LINE: TEXT: why", of lines that are none
};

/// Blank lines, and what follows a `#` at the start of a line or after a blank, count for nothing. An image of a
/// registry alone can be listed: the others lie on a node. One that is listed twice counts once. `file` is for
/// mistakes.
ImageList parse_image_list(const std::string& text, const std::string& file);

}  // namespace berth::plan
