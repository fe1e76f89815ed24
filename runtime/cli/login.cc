// `berth login` and `berth logout`: the program berth-pull, which speaks to registries, with the site's settings.
#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"

namespace berth::cli {

int login(int argc, char** argv) {
    CommandLine line("Log in to a registry and keep the login where docker does.", "berth login");
    std::string registry, user;
    bool from_input = false;
    line.option("-u,--user", user, "user; asked for on the terminal without it");
    line.flag("--password-stdin", from_input, "read the password from standard input instead of the terminal");
    line.argument("registry", registry, "HOST[:PORT]").required();
    if (auto code = line.parse(argc, argv)) return *code;
    load_site();  // its mistakes are told by this program, and its owner is checked
    std::vector<std::string> arguments = site_arguments();
    arguments.insert(arguments.end(), {"--login", registry});
    if (!user.empty()) arguments.insert(arguments.end(), {"--user", user});
    if (from_input) arguments.emplace_back("--password-stdin");
    exec_pull_program(std::move(arguments));
}

int logout(int argc, char** argv) {
    CommandLine line("Remove the login for a registry from where docker keeps it.", "berth logout");
    std::string registry;
    line.argument("registry", registry, "HOST[:PORT]").required();
    if (auto code = line.parse(argc, argv)) return *code;
    exec_pull_program({"--logout", registry});
}

}  // namespace berth::cli
