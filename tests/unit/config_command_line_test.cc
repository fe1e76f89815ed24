#include "runtime/config/command_line.hh"

#include <CLI/Version.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/run_options.hh"
#include "runtime/request/reference.hh"
#include "tests/catch.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

namespace {

/// argc and argv of a command and its words.
class Words {
  public:
    explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
        words_.insert(words_.begin(), "command");
        for (std::string& word : words_) pointers_.push_back(word.data());
        pointers_.push_back(nullptr);
    }
    std::optional<int> parsed_by(CommandLine& line) {
        return line.parse(static_cast<int>(words_.size()), pointers_.data());
    }
    template <typename Function>
    void call(Function function) {
        function(static_cast<int>(words_.size()), pointers_.data());
    }

  private:
    std::vector<std::string> words_;
    std::vector<char*> pointers_;
};

}  // namespace

TEST_CASE("command line: values go to their variables, and what is not given stays", "[runtime]") {
    CommandLine line("Does it.", "berth do");
    bool flag = false, other = false;
    std::string text = "default";
    int number = -1;
    uint32_t small = 7;
    uint64_t large = 7;
    std::vector<std::string> each, rest;
    line.flag("-f,--flag", flag, "");
    auto absent = line.flag("--other", other, "");
    line.option("--text", text, "");
    line.option("--number", number, "");
    line.option("--small", small, "");
    auto given = line.option("--large", large, "");
    line.option("-e,--each", each, "");
    line.argument("rest", rest, "");
    CHECK_FALSE(
        Words({"-f", "-e", "a", "one", "--each=b", "two", "--number", "3", "--large", "9999999999"}).parsed_by(line));
    CHECK(flag);
    CHECK_FALSE(other);
    CHECK(text == "default");
    CHECK(number == 3);
    CHECK(small == 7);
    CHECK(large == 9'999'999'999);
    // An option takes one value each time, so that the words behind it stay arguments.
    CHECK(each == std::vector<std::string>{"a", "b"});
    CHECK(rest == std::vector<std::string>{"one", "two"});
    CHECK(given.given());
    CHECK_FALSE(absent.given());
}

TEST_CASE("command line: what follows the arguments is a command with its own options", "[runtime]") {
    for (bool dashes : {false, true}) {
        CommandLine line("Runs it.", "berth run");
        bool quiet = false;
        std::string image;
        std::vector<std::string> command;
        line.flag("-q", quiet, "");
        line.argument("image", image, "").required();
        line.ends_with_command(command);
        CHECK_FALSE(Words(dashes ? std::vector<std::string>{"a", "--", "ls", "-q", "--", "x"}
                                 : std::vector<std::string>{"a", "ls", "-q", "--", "x"})
                        .parsed_by(line));
        CHECK(image == "a");
        CHECK_FALSE(quiet);
        CHECK(command == std::vector<std::string>{"ls", "-q", "--", "x"});
    }
}

namespace {

struct Parsed {
    std::optional<int> code;
    bool verbose = false, quiet = false, json = false;
    std::string name, image;
    std::vector<std::string> env, command;
    bool operator==(const Parsed&) const = default;
};

Parsed parsed(const std::vector<std::string>& words) {
    Parsed out;
    CommandLine line("Runs it.", "berth run");
    Words given(words);
    line.flag("-v,--verbose", out.verbose, "");
    auto quiet = line.flag("-q,--quiet,--silent", out.quiet, "");
    line.flag("--json", out.json, "").excludes(quiet);
    line.option("--name", out.name, "").one_of({"a", "b"});
    line.option("-e,--env", out.env, "");
    line.argument("image", out.image, "").required();
    line.ends_with_command(out.command);
    out.code = given.parsed_by(line);
    return out;
}

}  // namespace

TEST_CASE("command line: flags may be written as one with a value behind them", "[runtime]") {
    CHECK(parsed({"-veA", "--name", "b", "i", "ls", "-l"}) ==
          Parsed{{}, true, false, false, "b", "i", {"A"}, {"ls", "-l"}});
}

TEST_CASE("command line: --env names variables, several at once, or sets one", "[runtime]") {
    cli::RunOptions options;
    cli::take_environment({"A", "B,C", "D=x=y,z"}, options);
    CHECK(options.request.env == std::vector<std::string>{"A", "B", "C", "D"});
    CHECK(options.set == std::vector<std::string>{"D=x=y,z"});
    for (const char* wrong : {"A,B=x", "=x", "A B", "1=x", ""})
        CHECK_THROWS_AS(cli::take_environment({wrong}, options), Error);
}

TEST_CASE("command line: berth run reads the table of options", "[runtime]") {
    auto taken = [](const std::vector<std::string>& words, const char* command = "run") {
        cli::RunOptions options;
        int code = 0;
        Words given(words);
        bool parsed = false;
        given.call([&](int argc, char** argv) {
            parsed = cli::parse_run_options(command, argc, argv, options, code);
        });
        REQUIRE(parsed);
        return options;
    };
    cli::RunOptions options =
        taken({"--mount",   "/a,/b:/c:ro", "--mount=tmpfs:/d", "-w",     "x",      "-eA",
               "--env=B=1", "--name",      "dev:exec",         "--save", "f.sqsh", "--no-mount-home",
               "--root",    "--read-only", "--no-entrypoint",  "--pid",  "--net",  "image",
               "ls",        "--root"});
    plan::Request& request = options.request;
    CHECK(request.image_text() == "image");
    CHECK(options.command == std::vector<std::string>{"ls", "--root"});
    CHECK(request.mounts.size() == 3);
    CHECK(request.mount_texts == std::vector<std::string>{"/a,/b:/c:ro", "tmpfs:/d"});
    CHECK(request.workdir == "/x");
    CHECK(request.env == std::vector<std::string>{"A", "B"});
    CHECK(options.set == std::vector<std::string>{"B=1"});
    CHECK(request.name == plan::ContainerName{"dev", plan::NameMode::exec});
    CHECK(request.save == "f.sqsh");
    CHECK(request.mount_home == false);
    CHECK(request.remap_root == true);
    CHECK(request.writable == false);
    CHECK(request.entrypoint == false);
    CHECK((request.unshare == plan::OwnNamespaces{.net = true, .pid = true}));
    plan::Request plain;
    plain.image = plan::parse_reference("image");
    CHECK(taken({"image"}).request == plain);
    CHECK_THROWS_WITH(taken({"Image"}), Catch::Contains("lower-case"));
    CHECK(taken({"--rw", "--json", "image"}, "plan").request.writable == true);

    // A mistake names the option as it was written, and shows where.
    CHECK_THROWS_WITH(taken({"--mount", "/a:b", "image"}), Catch::StartsWith("--mount: ") && Catch::Contains("^"));
    CHECK_THROWS_WITH(taken({"-w", "/proc", "image"}), Catch::StartsWith("--workdir: ") && Catch::Contains("^"));
    CHECK_THROWS_WITH(taken({"--save", "d/", "image"}), Catch::StartsWith("--save: this is a directory"));
    CHECK_THROWS_WITH(taken({"-e", "A,2", "image"}), Catch::StartsWith("--env: '2' is no variable name"));
}

TEST_CASE("command line: berth exec takes the name of a container, or a job", "[runtime][job]") {
    struct Taken {
        cli::RunOptions options;
        cli::JobExec where;
    };
    auto taken = [](const std::vector<std::string>& words) {
        Taken out;
        int code = 0;
        bool parsed = false;
        Words(words).call([&](int argc, char** argv) {
            parsed = cli::parse_exec_options(argc, argv, out.options, out.where, code);
        });
        REQUIRE(parsed);
        return out;
    };
    using Texts = std::vector<std::string>;
    struct Named {
        Texts words, command;
        uint32_t job;
    };
    for (const Named& one : {Named{{"dev"}, {}, 0}, Named{{"dev", "ls", "-l"}, {"ls", "-l"}, 0},
                             Named{{"dev", "--", "ls"}, {"ls"}, 0}, Named{{"--", "dev", "ls"}, {"ls"}, 0},
                             Named{{"dev", "sh", "-c", "x", "--", "y"}, {"sh", "-c", "x", "--", "y"}, 0},
                             Named{{"--job", "12", "dev", "ls"}, {"ls"}, 12},
                             Named{{"-t", "--job=12", "dev", "--", "ls", "--", "x"}, {"ls", "--", "x"}, 12}}) {
        INFO(cat(one.words.front(), " ", one.words.back()));
        Taken got = taken(one.words);
        CHECK_FALSE(got.where.wanted);
        CHECK(got.options.request.name == plan::ContainerName{"dev", plan::NameMode::automatic});
        CHECK(got.options.command == one.command);
        CHECK(got.options.job == one.job);
    }
    struct OfJob {
        Texts words, command;
        cli::JobTarget target;
        std::string node;
    };
    for (const OfJob& one :
         {OfJob{{"--job", "12", "--", "ls", "-l"}, {"ls", "-l"}, {"12", ""}, ""},
          OfJob{{"--job", "12", "--"}, {}, {"12", ""}, ""}, OfJob{{"--job", "12"}, {}, {"12", ""}, ""},
          OfJob{{"-t", "--job=12_3"}, {}, {"12_3", ""}, ""}, OfJob{{"--job", "12.0"}, {}, {"12", "0"}, ""},
          OfJob{{"--job=12.batch", "ls", "-l"}, {"ls", "-l"}, {"12", "batch"}, ""},
          OfJob{{"--job", "12", "--node", "n2", "ls", "--", "x"}, {"ls", "--", "x"}, {"12", ""}, "n2"},
          OfJob{{"--job", "12_3", "-w", "/x", "--", "ls", "--", "x"}, {"ls", "--", "x"}, {"12_3", ""}, ""}}) {
        INFO(cat(one.words.back()));
        Taken got = taken(one.words);
        CHECK(got.where.wanted);
        CHECK(got.where.target == one.target);
        CHECK(got.where.node == one.node);
        CHECK(got.options.command == one.command);
        CHECK_FALSE(got.options.request.name);
    }
    CHECK(taken({"--job", "12", "--ssh-server"}).where.ssh_server);
    CHECK_FALSE(taken({"--job", "12", "--ssh-server", "-t"}).where.terminal);
    CHECK(taken({"--job", "12.1", "-t"}).where.terminal);
    for (const Texts& wrong : {Texts{"--job", "12x", "dev"}, {"--job", "12x", "--", "ls"}, {"--job", "12_3", "dev"},
                               {"--job", "12.", "ls"}, {"--job", "", "dev"}, {"--job", "", "--", "ls"}, {"a/b"}}) {
        INFO(wrong[1 % wrong.size()]);
        CHECK_THROWS_AS(taken(wrong), Error);
    }
}

TEST_CASE("command line: completions are told all options and what their values are", "[runtime]") {
    CommandLine line("Lists.", "berth list");
    bool flag = false;
    std::string text, word, file, hidden;
    line.flag("-f,--flag", flag, "");
    line.option("--text", text, "");
    line.option("--word", word, "").one_of({"a", "b"});
    line.option("-o,--output", file, "").required().completed_by(Completion::files);
    line.option("--hidden", hidden, "").hidden();
    line.argument("argument", text, "").required();
    CHECK(Words({"--list-options"}).parsed_by(line) == 0);

    auto listed = [](const char* words) {
        return fixtures::run_command(cat(fixtures::built_program("berth"), " ", words, " --list-options")).output;
    };
    CHECK(listed("exec") ==
          "-w=FILES\n--workdir=FILES\n-e=VARIABLES\n--env=VARIABLES\n-i\n--interactive\n-t\n--tty\n--job=JOBS\n"
          "--node=\n--ssh-server\n");
    CHECK_THAT(listed("run"), Catch::StartsWith("--environment=ENVIRONMENTS\n"));
    CHECK_THAT(listed("report"), Catch::Contains("--job=JOBS\n"));
    CHECK_THAT(listed("run"), Catch::Contains("\n--name=CONTAINERS\n") && Catch::Contains("\n--ro\n--read-only\n"));
    CHECK(listed("pull") == "--policy=newer missing always never\n--json\n-q\n--quiet\n");
    CHECK(listed("config") == "--json\n");
    CHECK_THAT(listed("import"),
               Catch::Contains("--policy=newer missing always never\n") && !Catch::Contains("--store"));
    // A command's own word.
    CHECK_THAT(listed("run /no/such/image ls"), Catch::Contains("/no/such/image"));
}

TEST_CASE("command line: a word with a dash before the image is an option, or a mistake that is named", "[runtime]") {
    struct Case {
        const char* words;
        const char* told;
    };
    for (const Case& one : std::initializer_list<Case>{
             {"run --no-such /no/image ls", "berth run: it has no option --no-such: berth run --help lists those"},
             {"run --gpus all /no/image", "berth run: it has no option --gpus: a container has the GPUs of its job"},
             {"run --gpus=all /no/image", "berth run: it has no option --gpus: "},
             {"run -v /etc:/data /no/image ls", "for a mount write --mount /etc:/data; -v is --verbose"},
             {"run -qV /no/image", "berth run: it has no option -V: "},
             {"run -e A=1 --container-mounts=/a:/b /no/image", "--container-mounts: write --mount"},
             {"run --no-container-mount-home /no/image", "--no-container-mount-home: write --no-mount-home"},
             {"run --container-image=/no/image ls", "--container-image: write the image as a word of its own"},
             {"plan --container-readonly /no/image", "--container-readonly: write --"},
             {"profile --volume=/a:/b /no/image",
              "berth profile: it has no option --volume: for a mount write --mount"},
             {"exec --no-such name ls", "berth exec: it has no option --no-such: "},
             {"enter --no-such 1 ls", "it has no option --no-such: "}}) {
        auto result = fixtures::run_command(cat(fixtures::built_program("berth"), " ", one.words));
        INFO(one.words << ": " << result.output);
        CHECK(result.status == exit_failure);
        CHECK_THAT(result.output, Catch::Contains(one.told));
        CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
    }
    // What podman's users write has no effect, and is no mistake; nor are the command's own words.
    for (const char* words :
         {"run --rm -it /no/image --no-such", "plan --rm -- /no/image --no-such", "run -e A /no/image -x"}) {
        auto result = fixtures::run_command(cat(fixtures::built_program("berth"), " ", words));
        INFO(words << ": " << result.output);
        CHECK_THAT(result.output, Catch::Contains("/no/image") && !Catch::Contains("has no option"));
    }
}

TEST_CASE("command line: of subcommands one is chosen", "[runtime]") {
    CommandLine line("Two things.", "berth two");
    CommandLine one = line.subcommand("one", ""), other = line.subcommand("other", "");
    std::string file;
    other.argument("file", file, "");
    CHECK_FALSE(Words({"other", "x"}).parsed_by(line));
    CHECK_FALSE(one.chosen());
    CHECK(other.chosen());
    CHECK(file == "x");
}

TEST_CASE("command line: help is a success, a mistake berth's own failure, and both are told", "[runtime]") {
    struct Case {
        const char* words;
        int code;
        const char* told;
    };
    // Its headings are others.
    bool is_new = CLI11_VERSION_MAJOR > 2 || CLI11_VERSION_MINOR >= 6;
    for (const Case& one :
         {Case{"pull --help", 0, is_new ? "\nberth pull [OPTIONS] image\n" : "Usage: berth pull [OPTIONS] image\n"},
          {"pull", exit_failure, "image is required\n"},
          {"pull --polite x", exit_failure, "The following argument was not expected: --polite\n"},
          {"pull -q --json x", exit_failure, "--json excludes --quiet\n"},
          {"pull --policy often x", exit_failure, "--policy: often not in {newer,missing,always,never}\n"},
          {"rm --job x y", exit_failure, "Could not convert: --job = x\n"},
          {"config", exit_failure, "A subcommand is required\n"},
          {"config --help", 0, is_new ? "SUBCOMMANDS:\n" : "Subcommands:\n"}}) {
        auto result = fixtures::run_command(cat(fixtures::built_program("berth"), " ", one.words));
        INFO(one.words << ": " << result.output);
        CHECK(result.status == one.code);
        CHECK_THAT(result.output, Catch::Contains(one.told));
        // One line, which says whose it is.
        std::string command = cat("berth ", std::string(one.words).substr(0, std::string(one.words).find(' ')), ": ");
        if (one.code != 0) CHECK_THAT(result.output, Catch::StartsWith(command));
        if (one.code != 0) CHECK(std::ranges::count(result.output, '\n') == 1);
    }
    std::string pull = fixtures::built_program("berth-pull");
    for (const auto& [words, told] : {std::pair{" --store x", "--store and the image is required\n"},
                                      {" --threads 1025 --store x y", "--threads: Value 1025 not in range "},
                                      {" --store x --bars y", "--bars requires --report\n"}}) {
        auto result = fixtures::run_command(pull + words);
        CHECK(result.status == exit_failure);
        CHECK_THAT(result.output, Catch::Contains(told));
    }
    CHECK_THAT(fixtures::run_command(pull + " --version").output, Catch::StartsWith("berth-pull "));
    CHECK_THAT(fixtures::run_command(pull + " import --help").output, !Catch::Contains("--store"));
}

TEST_CASE("berth(1): help of a command, and a word that is none, in one line with what may be meant", "[cli]") {
    std::string berth = fixtures::built_program("berth");
    auto said = [&](const std::string& words) { return fixtures::run_command(cat(berth, " ", words)); };
    CHECK(said("help run").output == said("run --help").output);
    CHECK(said("help run").status == 0);
    CHECK(said("help help").output == said("help").output);
    for (const char* words : {"imags", "help imags"}) {
        CHECK(said(words).output ==
              "berth: there is no command imags; berth help lists those that there are; did you mean images?\n");
        CHECK(said(words).status == exit_failure);
    }
    CHECK(said("nothing-like-it").output ==
          "berth: there is no command nothing-like-it; berth help lists those that there are\n");
}

TEST_CASE("berth(1): the name of a file that is not there is asked of no registry", "[cli]") {
    fixtures::TempFolder folder;
    for (const char* command : {"run", "plan", "pull"}) {
        auto result = fixtures::run_command(cat("cd ", folder / "", " && BERTH_STORE_PATH=", folder / "store", " ",
                                                fixtures::built_program("berth"), " ", command, " nosuch.sqsh"));
        CHECK(result.status == exit_failure);
        CHECK(result.output == "berth: image nosuch.sqsh: there is no such file here; for a file write its path, as "
                               "./nosuch.sqsh, and for an image of a registry that is called so its tag as well, "
                               "nosuch.sqsh:latest\n");
    }
}

TEST_CASE("berth(1): a variable that means nothing is told in a line, and the command goes on", "[cli]") {
    std::string berth = fixtures::built_program("berth");
    auto result = fixtures::run_command("BERTH_STORE_PUL=never BERTH_NONE=debug " + berth + " config show");
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Catch::Contains("berth: no variable of Berth's, and without effect: BERTH_NONE, "
                                              "BERTH_STORE_PUL (did you mean BERTH_STORE_PULL?); see "));
    CHECK_THAT(fixtures::run_command("BERTH_STORE_PULL=never " + berth + " config show").output,
               !Catch::Contains("without effect"));
    // What others call.
    CHECK_THAT(fixtures::run_command("BERTH_NONE=debug " + berth + " srun-options").output,
               !Catch::Contains("without effect"));
}
