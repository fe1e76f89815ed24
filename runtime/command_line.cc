#include "runtime/command_line.hh"

#include <CLI/CLI.hpp>

#include "runtime/base/error.hh"

namespace berth {

DeclaredOption DeclaredOption::required() {
    option_->required();
    return *this;
}

DeclaredOption DeclaredOption::hidden() {
    option_->group("");
    return *this;
}

DeclaredOption DeclaredOption::excludes(DeclaredOption other) {
    option_->excludes(other.option_);
    return *this;
}

DeclaredOption DeclaredOption::needs(DeclaredOption other) {
    option_->needs(other.option_);
    return *this;
}

DeclaredOption DeclaredOption::one_of(const std::vector<std::string>& values) {
    option_->check(CLI::IsMember(values));
    return *this;
}

DeclaredOption DeclaredOption::at_most(int most) {
    option_->check(CLI::Range(0, most));
    return *this;
}

bool DeclaredOption::given() const { return !option_->empty(); }

CommandLine::CommandLine(const std::string& about, const std::string& command) : app_(std::make_shared<CLI::App>(about, command)) {}

DeclaredOption CommandLine::flag(const std::string& names, bool& value, const std::string& help) { return DeclaredOption(app_->add_flag(names, value, help)); }

DeclaredOption CommandLine::option(const std::string& names, std::string& value, const std::string& help) {
    return DeclaredOption(app_->add_option(names, value, help));
}

DeclaredOption CommandLine::option(const std::string& names, int& value, const std::string& help) {
    return DeclaredOption(app_->add_option(names, value, help));
}

DeclaredOption CommandLine::option(const std::string& names, uint32_t& value, const std::string& help) {
    return DeclaredOption(app_->add_option(names, value, help));
}

DeclaredOption CommandLine::option(const std::string& names, uint64_t& value, const std::string& help) {
    return DeclaredOption(app_->add_option(names, value, help));
}

DeclaredOption CommandLine::option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
    return DeclaredOption(app_->add_option(names, values, help)->allow_extra_args(false));
}

DeclaredOption CommandLine::argument(const std::string& name, std::string& value, const std::string& help) {
    return DeclaredOption(app_->add_option(name, value, help));
}

DeclaredOption CommandLine::argument(const std::string& name, std::vector<std::string>& values, const std::string& help) {
    return DeclaredOption(app_->add_option(name, values, help));
}

void CommandLine::version(const std::string& text) { app_->set_version_flag("--version", text); }

CommandLine CommandLine::subcommand(const std::string& word, const std::string& about) {
    app_->require_subcommand(1);
    // The parent owns it.
    return CommandLine({app_, app_->add_subcommand(word, about)});
}

void CommandLine::ends_with_command(std::vector<std::string>& command) {
    app_->prefix_command();
    app_->positionals_at_end(false);
    command_ = &command;
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& mistake) {
        return app_->exit(mistake) == 0 ? 0 : exit_failure;
    }
    if (command_) {
        *command_ = app_->remaining();
        if (!command_->empty() && command_->front() == "--") command_->erase(command_->begin());
    }
    return std::nullopt;
}

int CommandLine::missing(const std::string& what) const {
    app_->exit(CLI::RequiredError(what));
    return exit_failure;
}

bool CommandLine::chosen() const { return app_->parsed(); }

}  // namespace berth
