// The command line of one command. CLI11 stands behind it, which only command_line.cc includes: to read it takes ten
// seconds a file.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/completion.hh"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace berth {

/// A declared option, flag or argument, for what else is to be said of it. Lives as long as its CommandLine.
class DeclaredOption {
  public:
    /// What --list-options says of the values of each option.
    using Values = std::map<const CLI::Option*, std::string>;

    DeclaredOption(CLI::Option* option, std::shared_ptr<Values> values)
        : option_(option), values_(std::move(values)) {}

    DeclaredOption required();
    DeclaredOption hidden();  ///< left out of --help
    DeclaredOption excludes(DeclaredOption other);
    DeclaredOption needs(DeclaredOption other);
    DeclaredOption one_of(const std::vector<std::string>& values);
    DeclaredOption completed_by(Completion completion);
    DeclaredOption completed_by(const std::vector<std::string>& words);
    DeclaredOption at_most(int most);

    /// After the parse: whether it was on the command line.
    bool given() const;

  private:
    CLI::Option* option_;
    std::shared_ptr<Values> values_;
};

/// What a command understands. Values go to the variables given, which must outlive the parse and are left as they are
/// where nothing is said of them. Names are written as "-o,--output".
class CommandLine {
  public:
    /// `command` as a user writes it ("berth pull"); `about` is one sentence, which heads --help.
    CommandLine(const std::string& about, const std::string& command);

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

    /// With ends_with_command(): what to do about a word with a dash before the first argument that is no option, a
    /// clause for the error; empty where there is nothing to say. Without it such a word would be the command.
    using Advice = std::function<std::string(const std::string& option)>;
    void advises(Advice advice) { advice_ = std::move(advice); }

    /// The exit code after --help, --version or a mistake, of which the text has been printed; nothing when the command
    /// is to go on.
    ///
    /// For completions --list-options, as the last word (of a command line that ends with a command: as the only one),
    /// prints each option in a line of its own: "--json" takes no value, "--job=" any, "--policy=newer missing" one of
    /// these words, and "--name=FILES" (or VARIABLES, CONTAINERS, ENVIRONMENTS, JOBS) one of those.
    [[nodiscard]] std::optional<int> parse(int argc, char** argv);

    /// For what cannot be said by required(): prints that `what` is missing; the exit code.
    int missing(const std::string& what) const;
    /// For words that do not go together: prints the mistake behind the command's name; the exit code.
    int refused(const std::string& mistake) const;

    /// Of a subcommand, after the parse: whether it is the one.
    bool chosen() const;

  private:
    CommandLine(std::shared_ptr<CLI::App> app, std::shared_ptr<DeclaredOption::Values> values)
        : app_(std::move(app)), values_(std::move(values)) {}
    bool wants_list(int argc, char** argv) const;
    std::string unknown_option(int argc, char** argv) const;
    DeclaredOption declared(CLI::Option* option) const { return {option, values_}; }
    template <typename Value>
    DeclaredOption add_option(const std::string& names, Value& value, const std::string& help);

    std::shared_ptr<CLI::App> app_;
    std::shared_ptr<DeclaredOption::Values> values_;
    std::vector<std::string>* command_ = nullptr;
    Advice advice_ = {};
};

}  // namespace berth
