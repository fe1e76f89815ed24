#include "runtime/apptainer/overlays.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

plan::Edit layer_of(const std::string& source, bool is_file) {
    plan::Mount mount;
    mount.kind = is_file ? plan::Mount::Kind::squashfs : plan::Mount::Kind::bind;
    mount.source = source;
    mount.target = "/";
    mount.read_only = true;
    mount.recursive = false;
    mount.layer = true;
    return {mount, "option --overlay", "asked for"};
}

}  // namespace

OverlayGiven overlay_given(const std::string& text) {
    size_t colon = text.rfind(':');
    std::string option = colon == text.npos ? "" : text.substr(colon + 1);
    bool is_option = option == "ro" || option == "rw";
    return {is_option ? text.substr(0, colon) : text, option == "ro"};
}

Overlays overlays_of(const std::vector<OverlayGiven>& given, const std::function<Found(const std::string&)>& find) {
    Overlays out;
    for (const OverlayGiven& one : given) {
        bool is_file = find(one.path) == Found::file;
        if (is_file || one.read_only) {
            bool has_upper = !is_file && find(one.path + "/upper") == Found::folder;
            out.layers.push_back(layer_of(one.path + (has_upper ? "/upper" : ""), is_file));
        } else if (out.writable.empty()) {
            out.writable = one.path;
        } else {
            throw Error(cat("--overlay: ", printable(out.writable, 4096), " and ", printable(one.path, 4096),
                            " would both take what is written; write :ro behind one of them"));
        }
    }
    return out;
}

}  // namespace berth::apptainer
