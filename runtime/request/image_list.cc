#include "runtime/request/image_list.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

std::string without_comment(const std::string& line) {
    size_t sign = line.find('#');
    while (sign != line.npos && sign > 0 && line[sign - 1] != ' ' && line[sign - 1] != '\t')
        sign = line.find('#', sign + 1);
    return std::string(trimmed(std::string_view(line).substr(0, sign)));
}

Reference listed_reference(const std::string& text) {
    Reference out = parse_reference(text);
    if (out.kind != Reference::Kind::registry) throw Error("it is no image of a registry");
    return out;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

ImageList parse_image_list(const std::string& text, const std::string& file) {
    ImageList out;
    size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        std::string image = without_comment(line);
        if (image.empty()) continue;
        try {
            Reference reference = listed_reference(image);
            bool known = std::any_of(out.lines.begin(), out.lines.end(), [&](const ImageList::Line& other) {
                return other.reference.text() == reference.text();
            });
            if (!known) out.lines.push_back({number, image, std::move(reference)});
        } catch (const Error& error) {
            out.mistakes.push_back(cat(printable(file, 4096), ":", number, ": ", printable(image, 1024), ": ",
                                       first_line(error.what())));
        }
    }
    return out;
}

}  // namespace berth::plan
