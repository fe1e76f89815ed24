// `berth login` and `berth logout`: the program berth-pull, which speaks to registries, with the site's settings.
#include <CLI/CLI.hpp>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/facts.hh"
#include "runtime/image_source.hh"

namespace berth::cli {

namespace {

bool parse(CLI::App& app, int argc, char** argv, int& code) {
    try {
        app.parse(argc, argv);
        return true;
    } catch (const CLI::ParseError& error) {
        code = app.exit(error) == 0 ? 0 : exit_failure;
        return false;
    }
}

}  // namespace

int login(int argc, char** argv) {
    CLI::App app("Try a login at a registry and keep it where docker does.", "berth login");
    std::string registry, user;
    bool from_input = false;
    app.add_option("-u,--user", user, "user; asked for on the terminal without it");
    app.add_flag("--password-stdin", from_input, "read the password from standard input instead of the terminal");
    app.add_option("registry", registry, "HOST[:PORT]")->required();
    int code = 0;
    if (!parse(app, argc, argv, code)) return code;
    load_site();  // its mistakes are told by this program, and its owner is checked
    std::vector<std::string> arguments = site_arguments();
    arguments.insert(arguments.end(), {"--login", registry});
    if (!user.empty()) arguments.insert(arguments.end(), {"--user", user});
    if (from_input) arguments.emplace_back("--password-stdin");
    exec_pull_program(std::move(arguments));
}

int logout(int argc, char** argv) {
    CLI::App app("Remove the login for a registry from where docker keeps it.", "berth logout");
    std::string registry;
    app.add_option("registry", registry, "HOST[:PORT]")->required();
    int code = 0;
    if (!parse(app, argc, argv, code)) return code;
    exec_pull_program({"--logout", registry});
}

}  // namespace berth::cli
