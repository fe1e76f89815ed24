// `berth-pull cdi`: reads and writes CDI specifications for berth, which is not linked with a parser of JSON.
#include <iostream>
#include <string>
#include <vector>

#include "hooks/cdi_files/cdi.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"

namespace berth::pull {

namespace {
constexpr size_t input_limit = 4 << 20;
}

int cdi_command(int argc, char** argv) {
    CommandLine line("Reads CDI specifications for berth.", "berth-pull cdi");
    std::vector<std::string> folders, names;
    std::string edits, kind;
    line.option("--folder", folders, "with specifications; a later one takes precedence");
    line.option("--edits", edits, "read the containerEdits of WHAT from standard input instead");
    line.option("--write", kind, "write a specification of this kind, of lines on standard input");
    line.argument("names", names, "VENDOR/CLASS=NAME");
    if (auto code = line.parse(argc, argv)) return *code;
    if (!kind.empty())
        std::cout << hooks::cdi_text(
            kind, hooks::parse_cdi_edits(sys::read_all(0, input_limit, "the lines"), "standard input"));
    else if (!edits.empty())
        std::cout << hooks::lines_of(hooks::parse_container_edits(sys::read_all(0, input_limit, edits), edits), edits);
    else
        std::cout << hooks::lines_of(hooks::find_cdi_devices(folders, names), "the CDI specifications");
    return 0;
}

}  // namespace berth::pull
