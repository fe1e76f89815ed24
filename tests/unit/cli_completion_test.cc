// What shells offer behind `berth`, asked of bash, zsh and fish themselves.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

namespace {

/// A PATH with berth, a squeue that knows two jobs, and a site with an environment file.
struct CompletionScene {
    CompletionScene() {
        std::filesystem::create_directories(folder / "bin");
        std::filesystem::create_directories(folder / ".config/berth/environments");
        std::ofstream(folder / ".config/berth/environments/training.toml") << "image = \"debian:12\"\n";
        std::filesystem::create_symlink(std::filesystem::absolute(fixtures::built_program("berth")),
                                        folder / "bin/berth");
        std::ofstream(folder / "bin/squeue") << "#!/bin/sh\nprintf '1234\\n1250_7\\n'\n";
        std::filesystem::permissions(folder / "bin/squeue", std::filesystem::perms(0755));
    }

    /// Lines that the shell prints, sorted; `command` finds the line to complete in $1.
    std::string answer(const std::string& shell, const std::string& line) const {
        auto result = fixtures::run_command(cat("HOME=", folder / "", " XDG_CONFIG_HOME=", folder / ".config",
                                                " PATH=", folder / "bin", ":/usr/bin:/bin ", shell, " '", line,
                                                "' | cut -f1 | sort -u | xargs"));
        return std::string(trimmed(result.output));
    }
    std::string bash(const std::string& line) const {
        return answer("bash -c '. conf/completions/berth.bash; COMP_LINE=$1 COMP_POINT=${#1}; _berth; "
                      "printf \"%s\\n\" \"${COMPREPLY[@]}\"' bash",
                      line);
    }
    std::string fish(const std::string& line) const {
        return answer("fish --no-config -c 'source conf/completions/berth.fish; complete -C \"$argv[1]\"'", line);
    }
    /// _berth with the builtins of zsh's completion in place of the line editor.
    std::string zsh(const std::string& line) const {
        return answer("zsh -fc 'compadd() { local a; [[ $1 == -a ]] && { print -l -- ${(P)2}; return }; "
                      "[[ $1 == -- ]] && shift; print -l -- $@ }; _files() { : }; _parameters() { : }; "
                      "words=(${(s: :)1}); [[ $1 == *\\  ]] && words+=(\"\"); CURRENT=$#words; PREFIX=$words[-1]; "
                      "set --; source conf/completions/_berth' zsh",
                      line);
    }

    fixtures::TempFolder folder;
};

}  // namespace

TEST_CASE("completions: jobs that run, environments, words of an option, commands, in each shell",
          "[cli][completion]") {
    CompletionScene scene;
    for (auto shell : {&CompletionScene::bash, &CompletionScene::fish, &CompletionScene::zsh}) {
        auto completed = [&](const std::string& line) { return (scene.*shell)(line); };
        CHECK(completed("berth exec --job ") == "1234 1250_7");
        CHECK(completed("berth ssh-config ") == "1234 1250_7");
        CHECK_THAT(completed("berth run --environment "), Catch::Contains("training"));
        CHECK(completed("berth pull --policy ") == "always missing never newer");
        CHECK_THAT(completed("berth ssh"), Catch::Contains("ssh-config"));
        CHECK_THAT(completed("berth exec --j"), Catch::Contains("--job"));
    }
}
