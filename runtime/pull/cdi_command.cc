#include "runtime/pull/cdi_command.hh"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "hooks/cdi.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"

namespace berth::pull {

namespace {
constexpr size_t input_limit = 4 << 20;
}

int cdi_command(int argc, char** argv) {
    CLI::App app("Reads CDI specifications for berth.", "berth-pull cdi");
    std::vector<std::string> folders, names;
    std::string edits, kind;
    app.add_option("--folder", folders, "with specifications; a later one counts more")->allow_extra_args(false);
    app.add_option("--edits", edits, "read the containerEdits of WHAT from standard input instead");
    app.add_option("--write", kind, "write a specification of this kind, of lines on standard input");
    app.add_option("names", names, "VENDOR/CLASS=NAME");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    if (!kind.empty())
        std::cout << hooks::cdi_text(kind, hooks::parse_device_edits(sys::read_all(0, input_limit, "the lines"), "standard input"));
    else if (!edits.empty())
        std::cout << hooks::lines_of(hooks::parse_container_edits(sys::read_all(0, input_limit, edits), edits));
    else
        std::cout << hooks::lines_of(hooks::find_cdi_devices(folders, names));
    return 0;
}

}  // namespace berth::pull
