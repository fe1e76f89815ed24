// The command line of one command. CLI11 stands behind it, which only command_line.cc includes: to read it takes ten
// seconds a file.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace berth {

/// A declared option, flag or argument, for what else is to be said of it. Lives as long as its CommandLine.
class DeclaredOption {
  public:
    explicit DeclaredOption(CLI::Option* option) : option_(option) {}

    DeclaredOption required();
    DeclaredOption hidden();  ///< left out of --help
    DeclaredOption excludes(DeclaredOption other);
    DeclaredOption needs(DeclaredOption other);
    DeclaredOption one_of(const std::vector<std::string>& values);
    DeclaredOption at_most(int most);

    /// After the parse: whether it was on the command line.
    bool given() const;

  private:
    CLI::Option* option_;  ///< null for one that was left out, see CommandLine::only_for()
};

/// What a command understands. Values go to the variables given, which must outlive the parse and are left as they are
/// where nothing is said of them. Names are written as "-o,--output".
class CommandLine {
  public:
    /// `command` as a user writes it ("berth pull"); `about` is one sentence, which heads --help.
    CommandLine(const std::string& about, const std::string& command);

    /// From here on flags and options that these words cannot mean are left out, unless they ask for help: CLI11
    /// compares each new one with all before it, a tenth of a millisecond for those of `berth run`. None of them may be
    /// required(), or what another one needs().
    void only_for(int argc, char** argv);

    DeclaredOption flag(const std::string& names, bool& value, const std::string& help);
    DeclaredOption option(const std::string& names, std::string& value, const std::string& help);
    DeclaredOption option(const std::string& names, int& value, const std::string& help);
    DeclaredOption option(const std::string& names, uint32_t& value, const std::string& help);
    DeclaredOption option(const std::string& names, uint64_t& value, const std::string& help);
    /// One value each time that it is written.
    DeclaredOption option(const std::string& names, std::vector<std::string>& values, const std::string& help);

    /// A word without a dash, by its place; the vector takes all that are left.
    DeclaredOption argument(const std::string& name, std::string& value, const std::string& help);
    DeclaredOption argument(const std::string& name, std::vector<std::string>& values, const std::string& help);

    /// What --version prints.
    void version(const std::string& text);

    /// One of the words of which one has to follow.
    CommandLine subcommand(const std::string& word, const std::string& about);

    /// What follows the arguments is a command, its own options included; a "--" before it is dropped. Filled in by the
    /// parse.
    void ends_with_command(std::vector<std::string>& command);

    /// The exit code after --help, --version or a mistake, of which the text has been printed; nothing when the command
    /// is to go on.
    [[nodiscard]] std::optional<int> parse(int argc, char** argv);

    /// For what cannot be said by required(): prints that `what` is missing; the exit code.
    int missing(const std::string& what) const;

    /// Of a subcommand, after the parse: whether it is the one.
    bool chosen() const;

  private:
    explicit CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}
    bool may_be_given(const std::string& names) const;
    template <typename Value>
    DeclaredOption add_option(const std::string& names, Value& value, const std::string& help);

    std::shared_ptr<CLI::App> app_;
    std::vector<std::string>* command_ = nullptr;
    std::optional<std::vector<std::string>> words_;  ///< of only_for()
};

}  // namespace berth
