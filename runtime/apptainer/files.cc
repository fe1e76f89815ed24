#include "runtime/apptainer/files.hh"

#include "runtime/apptainer/start.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/reference.hh"

namespace berth::apptainer {

namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string file_name_of(const std::string& uri) {
    if (is_file(uri)) throw Error(cat(printable(uri, 4096), ": it is a file already; copy it"));
    std::string artifact = artifact_of(uri);
    plan::Reference image = plan::parse_reference(artifact.empty() ? image_of(uri) : artifact);
    if (image.has_path()) {
        std::string name = base_name(image.path), tag = base_name(image.selector);
        for (const char* end : {".tar", ".tgz", ".tar.gz"})
            if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
        size_t colon = tag.rfind(':');
        if (colon != tag.npos) tag = tag.substr(colon + 1);
        return cat(name, "_", tag.empty() ? "latest" : tag, ".sif");
    }
    std::string tag = image.tag.empty() ? "latest" : image.tag;
    if (image.digest) tag = cat("sha256.", image.digest->text().substr(image.digest->text().find(':') + 1));
    return cat(base_name(image.name), "_", tag, ".sif");
}

}  // namespace berth::apptainer
