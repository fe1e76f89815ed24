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
    if (option_) option_->group("");
    return *this;
}

DeclaredOption DeclaredOption::excludes(DeclaredOption other) {
    if (option_ && other.option_) option_->excludes(other.option_);
    return *this;
}

DeclaredOption DeclaredOption::needs(DeclaredOption other) {
    option_->needs(other.option_);
    return *this;
}

DeclaredOption DeclaredOption::one_of(const std::vector<std::string>& values) {
    if (option_) option_->check(CLI::IsMember(values));
    return completed_by(values);
}

DeclaredOption DeclaredOption::completed_by(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& word : words) all += cat(all.empty() ? "" : " ", word);
    if (option_) (*values_)[option_] = all;
    return *this;
}

DeclaredOption DeclaredOption::completed_by(Completion completion) {
    static const std::map<Completion, const char*> words = {{Completion::nothing, ""},
                                                            {Completion::files, "FILES"},
                                                            {Completion::variables, "VARIABLES"},
                                                            {Completion::containers, "CONTAINERS"}};
    if (option_) (*values_)[option_] = words.at(completion);
    return *this;
}

DeclaredOption DeclaredOption::at_most(int most) {
    if (option_) option_->check(CLI::Range(0, most));
    return *this;
}

bool DeclaredOption::given() const { return option_ && !option_->empty(); }

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

/// Whether a word is, or begins with, an option of this name: "-o", "--output", "-o=x", "-ox", "-vo" (flags written as
/// one).
bool can_mean(const std::string& word, const std::string& name) {
    if (name.starts_with("--")) return word == name || (word.starts_with(name) && word[name.size()] == '=');
    return word.starts_with('-') && !word.starts_with("--") && word.find(name[1]) != std::string::npos;
}

}  // namespace

void CommandLine::only_for(int argc, char** argv) {
    words_.emplace(argv + std::min(argc, 1), argv + argc);
    if (may_be_given(cat("-h,--help,", list_word))) words_.reset();
}

bool CommandLine::may_be_given(const std::string& names) const {
    if (!words_) return true;
    std::vector<std::string> each = split(names, ',');
    return std::any_of(words_->begin(), words_->end(), [&](const std::string& word) {
        return word.starts_with('-') &&
               std::any_of(each.begin(), each.end(), [&](const std::string& name) { return can_mean(word, name); });
    });
}

DeclaredOption CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
    return declared(may_be_given(names) ? app_->add_flag(names, value, help) : nullptr);
}

template <typename Value>
DeclaredOption CommandLine::add_option(const std::string& names, Value& value, const std::string& help) {
    return declared(may_be_given(names) ? app_->add_option(names, value, help) : nullptr);
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
    return declared(may_be_given(names) ? app_->add_option(names, values, help)->allow_extra_args(false) : nullptr);
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

std::optional<int> CommandLine::parse(int argc, char** argv) {
    if (wants_list(argc, argv)) {
        list_options(*app_, *values_);
        return 0;
    }
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
