#include "runtime/apptainer/instead.hh"

#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

struct Instead {
    const char* words;  ///< between blanks
    const char* what;
};

constexpr Instead all[] = {
    {"build",
     "images are not built of definition files, files and folders; write FILE and then docker:// or an archive, build "
     "one with podman or docker and push it to a registry, or with Apptainer where it is installed, and run the SIF "
     "file here"},
    {"instance", "there are no instances; give a container a name, by berth run --name NAME and berth exec NAME"},
    {"oci", "containers of OCI bundles are not run; name the image, by docker:// or oci:DIR"},
    {"remote key keyserver",
     "there are no remote endpoints and keys of Apptainer; logins are kept by apptainer registry "
     "login, and which signatures count is the site's (signatures, berth.conf(5))"},
    {"sign verify",
     "signatures in SIF files are neither made nor checked; berth sign and berth verify are about images "
     "of registries"},
    {"plugin",
     "there are no plugins of Apptainer; what a site adds to containers is in berth.conf(5) and "
     "berth-hooks(7)"},
    {"capability", "no container has capabilities over the node, so that there are none to give"},
    {"config", "there is no configuration of Apptainer; berth config prints Berth's settings"},
    {"overlay", "overlay images are not made; write --overlay FOLDER"},
    {"push", "SIF files are not pushed; push the image that it was made of, with skopeo or podman"},
    {"search delete tag",
     "there is no library; images are in registries, which skopeo list-tags and skopeo delete are "
     "for"},
    {"sif siftool", "SIF files are only read, by apptainer exec and run"},
    {"checkpoint", "checkpoints are not made; have the program write its own"},
    {"confgen buildcfg", "Berth's settings are listed by berth config"},
    {"run-help", "print the image's help by apptainer exec IMAGE cat /.singularity.d/runscript.help"},
    {"help-man", "see apptainer(1)"},
};

}  // namespace

std::string instead_of(std::string_view word) {
    for (const Instead& one : all)
        for (const std::string& each : split(one.words, ' '))
            if (each == word) return cat("apptainer ", word, ": ", one.what);
    return cat("there is no command ", printable(word), "; apptainer help lists those that there are");
}

}  // namespace berth::apptainer
