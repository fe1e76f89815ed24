#include "runtime/apptainer/instead.hh"

#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

struct Instead {
    const char* words;  ///< between blanks
    const char* what;
};

constexpr Instead all[] = {
    {"oci", "containers of OCI bundles are not run; name the image, by docker:// or oci:DIR"},
    {"remote keyserver",
     "there are no remote endpoints and servers of keys; logins are kept by apptainer registry "
     "login, and which signatures count is the site's (signatures, berth.conf(5))"},
    {"sign",
     "signatures in SIF files are not made; sign with Apptainer, or the image in its registry with berth sign"},
    {"plugin",
     "there are no plugins of Apptainer; what a site adds to containers is in berth.conf(5) and "
     "berth-hooks(7)"},
    {"capability", "no container has capabilities over the node, so that there are none to give"},
    {"config", "there is no configuration of Apptainer; berth config prints Berth's settings"},
    {"overlay", "overlay images are not made; write --overlay FOLDER"},
    {"search delete tag",
     "there is no library; images are in registries, which skopeo list-tags and skopeo delete are "
     "for"},
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
