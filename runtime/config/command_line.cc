#include "runtime/config/command_line.hh"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

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
    return completed_by(values);
}

DeclaredOption DeclaredOption::completed_by(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& word : words) all += cat(all.empty() ? "" : " ", word);
    (*values_)[option_] = all;
    return *this;
}

DeclaredOption DeclaredOption::completed_by(Completion completion) {
    static const std::map<Completion, const char*> words = {{Completion::nothing, ""},
                                                            {Completion::files, "FILES"},
                                                            {Completion::variables, "VARIABLES"},
                                                            {Completion::containers, "CONTAINERS"},
                                                            {Completion::environments, "ENVIRONMENTS"},
                                                            {Completion::jobs, "JOBS"}};
    (*values_)[option_] = words.at(completion);
    return *this;
}

DeclaredOption DeclaredOption::at_most(int most) {
    option_->check(CLI::Range(0, most));
    return *this;
}

bool DeclaredOption::given() const { return !option_->empty(); }

CommandLine::CommandLine(const std::string& about, const std::string& command)
    : app_(std::make_shared<CLI::App>(about, command)), values_(std::make_shared<DeclaredOption::Values>()) {}

namespace {

constexpr const char* list_word = "--list-options";

void list_options(CLI::App& app, const DeclaredOption::Values& values) {
    for (const CLI::Option* option : app.get_options()) {
        bool hidden = option->get_group().empty() || option == app.get_help_ptr();
        if (hidden || option->get_positional()) continue;
        auto found = values.find(option);
        std::string value = option->get_items_expected_max() == 0 ? ""
                            : found == values.end()               ? "="
                                                                  : "=" + found->second;
        for (const std::string& name : option->get_snames()) std::printf("-%s%s\n", name.c_str(), value.c_str());
        for (const std::string& name : option->get_lnames()) std::printf("--%s%s\n", name.c_str(), value.c_str());
    }
    for (CLI::App* subcommand : app.get_subcommands({})) list_options(*subcommand, values);
}

}  // namespace

DeclaredOption CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
    return declared(app_->add_flag(names, value, help));
}

template <typename Value>
DeclaredOption CommandLine::add_option(const std::string& names, Value& value, const std::string& help) {
    return declared(app_->add_option(names, value, help));
}

DeclaredOption CommandLine::option(const std::string& names, std::string& value, const std::string& help) {
    return add_option(names, value, help);
}

DeclaredOption CommandLine::option(const std::string& names, int& value, const std::string& help) {
    return add_option(names, value, help);
}

DeclaredOption CommandLine::option(const std::string& names, uint32_t& value, const std::string& help) {
    return add_option(names, value, help);
}

DeclaredOption CommandLine::option(const std::string& names, uint64_t& value, const std::string& help) {
    return add_option(names, value, help);
}

DeclaredOption CommandLine::option(const std::string& names, std::vector<std::string>& values,
                                   const std::string& help) {
    return declared(app_->add_option(names, values, help)->allow_extra_args(false));
}

DeclaredOption CommandLine::argument(const std::string& name, std::string& value, const std::string& help) {
    return declared(app_->add_option(name, value, help));
}

DeclaredOption CommandLine::argument(const std::string& name, std::vector<std::string>& values,
                                     const std::string& help) {
    return declared(app_->add_option(name, values, help));
}

void CommandLine::version(const std::string& text) { app_->set_version_flag("--version", text); }

CommandLine CommandLine::subcommand(const std::string& word, const std::string& about) {
    app_->require_subcommand(1);
    // The parent owns it.
    return CommandLine({app_, app_->add_subcommand(word, about)}, values_);
}

void CommandLine::ends_with_command(std::vector<std::string>& command) {
    app_->prefix_command();
    app_->positionals_at_end(false);
    command_ = &command;
}

bool CommandLine::wants_list(int argc, char** argv) const {
    bool may_be = command_ ? argc == 2 : argc > 1;
    return may_be && std::string_view(argv[argc - 1]) == list_word;
}

namespace {

/// Whether the option takes the word behind it as its value, if nothing of its own word is.
bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace

/// The first word with a dash before the arguments that names no option; empty when there is none.
std::string CommandLine::unknown_option(int argc, char** argv) const {
    for (int i = 1; i < argc; ++i) {
        std::string word = argv[i];
        if (word.size() < 2 || word[0] != '-' || word == "--") return {};
        if (word[1] == '-') {
            size_t equals = word.find('=');
            std::string name = word.substr(0, equals);
            const CLI::Option* option = app_->get_option_no_throw(name);
            if (option == nullptr) return name;
            if (takes_value(*option) && equals == std::string::npos) ++i;
            continue;
        }
        for (size_t at = 1; at < word.size(); ++at) {
            std::string name = {'-', word[at]};
            const CLI::Option* option = app_->get_option_no_throw(name);
            // What follows an option of one letter may be its value.
            if (option == nullptr) return at == 1 ? word : name;
            if (!takes_value(*option)) continue;
            if (at + 1 == word.size()) ++i;
            break;
        }
    }
    return {};
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
    if (wants_list(argc, argv)) {
        list_options(*app_, *values_);
        return 0;
    }
    if (std::string word = command_ ? unknown_option(argc, argv) : ""; !word.empty()) {
        std::string advice = advice_ ? advice_(word) : "";
        std::fprintf(
            stderr, "%s: it has no option %s: %s\n", app_->get_name().c_str(), printable(word).c_str(),
            advice.empty() ? cat(app_->get_name(), " --help lists those that it has").c_str() : advice.c_str());
        return exit_failure;
    }
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& mistake) {
        if (mistake.get_exit_code() == 0) return app_->exit(mistake);
        return refused(mistake.what());
    }
    if (command_) {
        *command_ = app_->remaining();
        if (!command_->empty() && command_->front() == "--") command_->erase(command_->begin());
    }
    return std::nullopt;
}

int CommandLine::refused(const std::string& mistake) const {
    std::fprintf(stderr, "%s: %s\n", app_->get_name().c_str(), mistake.c_str());
    return exit_failure;
}

int CommandLine::missing(const std::string& what) const { return refused(cat(what, " is required")); }

bool CommandLine::chosen() const { return app_->parsed(); }

}  // namespace berth
