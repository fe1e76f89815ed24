#include "runtime/apptainer/files.hh"

#include "runtime/apptainer/start.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/reference.hh"

namespace berth::apptainer {

namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// What has a file of its own in the image's folder.
struct Part {
    bool Inspection::*wanted;
    const char* file;
};
constexpr Part parts[] = {{&Inspection::helpfile, "runscript.help"},
                          {&Inspection::deffile, "Singularity"},
                          {&Inspection::runscript, "runscript"},
                          {&Inspection::startscript, "startscript"},
                          {&Inspection::test, "test"}};

/// Labels are a flat JSON object with a line for each.
constexpr const char* labels =
    "sed -n 's/^[[:space:]]*\"\\(.*\\)\": \"\\(.*\\)\",\\{0,1\\}$/\\1: \\2/p' $d/labels.json 2> /dev/null; ";
constexpr const char* labels_as_json =
    "printf '{\"data\":{\"attributes\":{\"labels\":'; cat $d/labels.json 2> /dev/null || printf '{}'; "
    "printf '}},\"type\":\"container\"}\\n'; ";
/// What the image's own scripts of the environment say; those of Apptainer are in every image.
constexpr const char* environment =
    "for f in $d/env/*.sh; do case $f in */01-base.sh|*/94-appsbase.sh|*/95-apps.sh|*/99-*) ;; "
    "*) [ ! -e $f ] || { echo \"=== $f ===\"; cat $f; echo; };; esac; done; ";

}  // namespace

std::string file_name_of(const std::string& uri) {
    if (is_file(uri)) throw Error(cat(printable(uri, 4096), ": it is a file already; copy it"));
    plan::Reference image = plan::parse_reference(image_of(uri));
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

std::vector<std::string> inspect_command(const Inspection& asked) {
    std::string script = "d=/.singularity.d; ";
    bool any = asked.environment;
    for (const Part& part : parts) {
        if (!(asked.*part.wanted)) continue;
        any = true;
        script += cat("[ ! -e $d/", part.file, " ] || cat $d/", part.file, "; ");
    }
    if (asked.environment) script += environment;
    // Nothing of an image is no failure.
    if (asked.labels || !any) script += asked.json ? labels_as_json : labels;
    script += "true";
    return {"/bin/sh", "-c", script};
}

}  // namespace berth::apptainer
