// `berth-pull admit`: whether an image file or directory may run by the site's signature policy. For berth.
#include "runtime/base/environment.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/transfer/admission.hh"
#include "runtime/pull/transfer/settings.hh"

namespace berth::pull {

int admit_command(int argc, char** argv) {
    std::string site, path;
    CommandLine line("Say whether an image file may run by the site's signature policy.", "berth-pull admit");
    line.option("--site", site, "site file");
    line.argument("path", path, "the file or directory").required();
    if (auto code = line.parse(argc, argv)) return *code;
    check_file(signature_rules(site_of(site, environment_of_this_process())), path);
    return 0;
}

}  // namespace berth::pull
